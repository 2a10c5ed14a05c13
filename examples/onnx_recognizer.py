"""Transcribes WAV files (16 kHz, one channel, 16 bits): python onnx_recognizer.py exported/model.onnx a.wav b.wav"""

import itertools
import json
import sys
import wave

import numpy as np
import onnxruntime


class Recognizer:
    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        metadata = self.session.get_modelmeta().custom_metadata_map
        if metadata.get("format") != '"ctcdro onnx 1"':
            raise ValueError(f"{path}: expected the format 'ctcdro onnx 1'; got {metadata.get('format')}.")
        self.tokens, self.min_samples = json.loads(metadata["vocabulary"]), json.loads(metadata["min_samples"])

    def transcribe(self, path):
        with wave.open(path) as file:
            if (found := (file.getframerate(), file.getnchannels(), file.getsampwidth())) != (16_000, 1, 2):
                raise ValueError(f"{path}: expected 16 kHz, one channel, 16 bits; got (rate, channels, bytes) {found}.")
            audio = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 2**15
        if len(audio) < self.min_samples:
            raise ValueError(f"{path}: too short: {len(audio)} samples; the model needs {self.min_samples}.")
        log_probs, _ = self.session.run(None, {"input_values": audio[None], "input_lengths": np.array([len(audio)])})
        labels = [label for label, _ in itertools.groupby(log_probs[0].argmax(-1)) if label != 0]  # 0 is the blank
        tokens = [{"|": " ", "<unk>": "\N{REPLACEMENT CHARACTER}"}.get(self.tokens[n], self.tokens[n]) for n in labels]
        language = next((token[1:-1] for token in tokens if len(token) > 2), None)
        return language, " ".join("".join(token for token in tokens if len(token) == 1).split())


if __name__ == "__main__":
    recognizer = Recognizer(sys.argv[1])
    for path in sys.argv[2:]:
        print(path, *recognizer.transcribe(path), sep="\t")

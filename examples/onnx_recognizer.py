"""Transcribes WAV files with an exported ONNX model; needs onnxruntime and numpy only.

python onnx_recognizer.py exported/model.onnx a.wav b.wav
"""

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
        self.about = {
            name: json.loads(metadata[name]) for name in ("vocabulary", "sample_rate", "min_samples", "max_samples")
        }

    def read(self, path):
        with wave.open(path) as file:
            found = file.getframerate(), file.getnchannels(), file.getsampwidth()
            if found != (self.about["sample_rate"], 1, 2):
                raise ValueError(f"{path}: expected 16 kHz, one channel, 16 bits; got (rate, channels, bytes) {found}.")
            return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 2**15

    def transcribe(self, audio):
        """A list of float32 arrays -> a list of (language, text)."""
        lengths = np.array([len(one) for one in audio])
        if min(lengths) < self.about["min_samples"] or max(lengths) > (self.about["max_samples"] or np.inf):
            raise ValueError(f"The model accepts {self.about['min_samples']} to {self.about['max_samples']} samples.")
        batch = np.stack([np.pad(one, (0, max(lengths) - len(one))) for one in audio]).astype(np.float32)
        logprobs, frames = self.session.run(None, {"input_values": batch, "input_lengths": lengths})
        return [self.decode(row[:n].argmax(-1)) for row, n in zip(logprobs, frames, strict=True)]

    def decode(self, labels):
        """The best label of each frame -> language and text: repeats are merged, blanks (label 0) removed."""
        tokens = [self.about["vocabulary"][label] for label, _ in itertools.groupby(labels) if label != 0]
        language = next((token[1:-1] for token in tokens if len(token) > 2 and token[0] == "["), None)
        shown = {"|": " ", "<unk>": "\N{REPLACEMENT CHARACTER}"}
        text = "".join(shown.get(token, token) for token in tokens if len(token) == 1 or token == "<unk>")
        return language, " ".join(text.split())


if __name__ == "__main__":
    recognizer = Recognizer(sys.argv[1])
    for path in sys.argv[2:]:
        [(language, text)] = recognizer.transcribe([recognizer.read(path)])
        print(path, language, text, sep="\t")

"""CTC-DRO in ESPnet2's ASR task, on synthetic languages: python examples/espnet_asr.py [FOLDER]

Writes data folders like those of ESPnet's recipes, trains with the command of the task, and prints the weight of each
language. The lines that CTC-DRO adds end in "# ctcdro". In a recipe, the first of them is `python -m
ctcdro.integrations.espnet` instead of `python -m espnet2.bin.asr_train`.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from ctcdro.integrations.espnet import CTCDROTask as ASRTask  # ctcdro

LANGUAGES, NOISE, NUM_SYMBOLS, FRAMES_PER_SECOND = ["clear", "plain", "noisy"], [0.2, 0.5, 0.9], 8, 25
NUM_FEATURES = NUM_SYMBOLS * len(LANGUAGES)

CONFIG = f"""
input_size: {NUM_FEATURES}
normalize: null
encoder: transformer
encoder_conf: {{input_layer: linear, output_size: 32, attention_heads: 2, linear_units: 64, num_blocks: 1}}
model_conf: {{ctc_weight: 1.0}}
ctc_conf:
    ctc_type: ctcdro            # ctcdro
    dro_step_size: 1.0e-3       # ctcdro
    dro_smoothing: 0.5          # ctcdro
batch_type: ctcdro              # ctcdro
batch_duration: 20.0            # ctcdro
batch_rate: {FRAMES_PER_SECOND}   # ctcdro
grad_clip: 1000.0               # ctcdro
token_type: word
token_list: [<blank>, {", ".join(f"s{symbol}" for symbol in range(NUM_FEATURES))}, <unk>, <sos/eos>]
optim: adam
optim_conf: {{lr: 0.003}}
max_epoch: 4
num_att_plot: 0
use_matplotlib: false
"""


def write_data(folder: Path, num_utterances: int, seed: int) -> None:
    """Writes features, transcripts, and the lengths that `--collect_stats true` would collect."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    files: dict[str, list[str]] = {name: [] for name in ("feats.scp", "text", "speech_shape", "utt2category")}
    for number in range(num_utterances):
        id, language = f"{folder.name}{number:03}", number % len(LANGUAGES)
        symbols = NUM_SYMBOLS * language + rng.integers(NUM_SYMBOLS, size=rng.integers(4, 20))
        spoken = np.repeat(symbols, rng.integers(3, 7, size=len(symbols)))
        frames = np.eye(NUM_FEATURES)[spoken] + NOISE[language] * rng.standard_normal((len(spoken), NUM_FEATURES))
        np.save(folder / f"{id}.npy", frames.astype(np.float32))
        files["feats.scp"].append(f"{id} {folder / id}.npy")
        files["text"].append(f"{id} " + " ".join(f"s{symbol}" for symbol in symbols))
        files["speech_shape"].append(f"{id} {len(frames)},{NUM_FEATURES}")
        files["utt2category"].append(f"{id} {LANGUAGES[language]}")  # ctcdro
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_data(folder / "train", num_utterances=300, seed=0)
    write_data(folder / "dev", num_utterances=30, seed=1)
    (folder / "train.yaml").write_text(CONFIG)
    cmd = ["--config", f"{folder}/train.yaml", "--output_dir", f"{folder}/exp"]
    for split, data in (("train", folder / "train"), ("valid", folder / "dev")):
        cmd += [f"--{split}_data_path_and_name_and_type", f"{data}/feats.scp,speech,npy"]
        cmd += [f"--{split}_data_path_and_name_and_type", f"{data}/text,text,text"]
        cmd += [f"--{split}_shape_file", f"{data}/speech_shape"]
    ASRTask.main(cmd=cmd)

    model, _ = ASRTask.build_model_from_file(folder / "exp" / "config.yaml", folder / "exp" / "latest.pth")
    weights = zip(model.ctc.objective.group_names, model.ctc.objective.weights.tolist(), strict=True)
    print("weights:", *(f"{name} {weight:.3f}" for name, weight in weights))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

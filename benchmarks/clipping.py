"""Does a limit on the gradient norm undo the group weights? .venv/bin/python benchmarks/clipping.py DATASET

A small wav2vec 2.0 with random weights, dropout, SpecAugment and the Transformer head trains with CTC-DRO (step size
1e-4, smoothing 0.1) and no limit, on batches of 50 s, once for each reduction and number of batches per step. Norms are
those of `log.jsonl`.

- "Over 5" is the share of steps whose norm exceeds 5, the limit in the authors' code.
- "Doubled weight" is the factor by which the gradient of a step grows when its weight is doubled and a fixed limit of 5
  applies: 2 if the weight has its full effect, 1 if it has none. A step of many batches has batches of all groups, and
  the limit scales all of them by the same factor, so that the weights within the step keep their effect.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from measuring import ResultTable

from ctcdro.runs.config import parse_config
from ctcdro.training.loop import train

LIMIT = 5.0
SMALL_WAV2VEC2 = {
    **{"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 256},
    **{"conv_dim": [32] * 7, "feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True},
}
DROPOUTS = ("hidden_dropout", "attention_dropout", "activation_dropout", "feat_proj_dropout")


def doubled_weight(norms: npt.NDArray[np.float64], limit: float = LIMIT) -> float:
    """The mean factor by which a batch's clipped gradient grows when its weight is doubled.

    Example:
        >>> doubled_weight(np.array([1.0, 2.0])), doubled_weight(np.array([80.0]))
        (2.0, 1.0)
    """
    return float(np.mean(np.minimum(2 * norms, limit) / np.minimum(norms, limit)))


def gradient_norms(
    dataset: Path, encoder: Path, reduction: str, batches_per_step: int, num_batches: int
) -> npt.NDArray[np.float64]:
    """The gradient norm of each step of a run without a limit."""
    config = parse_config(
        {
            "dataset": dataset,
            "model": {"encoder": str(encoder)},
            "objective": {"step_size": 1e-4, "smoothing": 0.1, "reduction": reduction},
            "data": {"num_workers": 0},
            "optimizer": {"max_grad_norm": None, "batches_per_step": batches_per_step},
            "training": {"num_batches": num_batches, "trackers": []},
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        run = train(config, Path(folder, "run"))
        records = [json.loads(line) for line in run.log.read_text().splitlines()]
    return np.array([record["gradient_norm"] for record in records if "gradient_norm" in record])


def save_encoder(folder: Path) -> Path:
    """Writes a small wav2vec 2.0 with random weights and dropout."""
    import transformers

    torch.manual_seed(0)
    config = transformers.Wav2Vec2Config(**SMALL_WAV2VEC2, **dict.fromkeys(DROPOUTS, 0.1))
    transformers.Wav2Vec2Model(config).save_pretrained(folder)
    return folder


def main(dataset: Path, num_batches: int) -> dict[str, ResultTable]:
    table = ResultTable(
        "reduction", "batches per step", "median norm", "5% to 95%", "steps over 5", "effect of a doubled weight"
    )
    with tempfile.TemporaryDirectory() as folder:
        encoder = save_encoder(Path(folder))
        for reduction in ("sum", "mean"):
            for batches_per_step in (1, 16):
                norms = gradient_norms(dataset, encoder, reduction, batches_per_step, num_batches)
                low, median, high = np.percentile(norms, [5, 50, 95])
                weight = f"{doubled_weight(norms):.2f}" if batches_per_step == 1 else ""
                over = f"{np.mean(norms > LIMIT):.0%}"
                low, median, high = (f"{float(f'{norm:.3g}'):,g}" for norm in (low, median, high))
                table.add(reduction, f"{batches_per_step}", median, f"{low} to {high}", over, weight)
    return {"clipping-norms": table}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path, help="folder with train.jsonl and dev.jsonl")
    parser.add_argument("--num-batches", type=int, default=96, help="batches per run (default: 96)")
    arguments = parser.parse_args()
    main(arguments.dataset, arguments.num_batches)

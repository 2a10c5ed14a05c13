"""Character error rates per language, for `compute_metrics`, and for objectives that follow them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import EvalPrediction, TrainingArguments

from ...objectives.objective import Objective

NO_LABEL = -100  # padding of labels in `transformers`


@dataclass(frozen=True)
class ErrorRates:
    """Character error rates per language, for `compute_metrics` of a `RobustTrainer`.

    The Trainer then logs `eval_worst_cer`, `eval_mean_cer` (over languages) and `eval_cer/<language>`. Select the best
    model with `metric_for_best_model="worst_cer", greater_is_better=False`. CTC models are decoded greedily;
    sequence-to-sequence models need `predict_with_generate=True`.

    Args:
        decode: function from labels to text. CTC blanks and repetitions are already removed, so for a CTC tokenizer
            pass `functools.partial(tokenizer.decode, group_tokens=False)`, for Whisper
            `functools.partial(tokenizer.decode, skip_special_tokens=True)`.
        profile: scoring profile; see `ctcdro.scoring.scores`.

    Example:
        >>> import numpy as np
        >>> rates = ErrorRates(lambda labels: "".join("_abc"[label] for label in labels))
        >>> labels, names = np.array([[1, 2, 3], [3, 3, -100]]), encode_names(["ces", "cmn"])
        >>> rates(EvalPrediction(predictions=np.array([[1, 2, 3], [3, -100, 1]]), label_ids=(labels, names)))
        {'worst_cer': 0.5, 'mean_cer': 0.25, 'cer/ces': 0.0, 'cer/cmn': 0.5}
    """

    decode: Callable[[list[int]], str]
    profile: str = "plain"

    def __call__(self, prediction: EvalPrediction) -> dict[str, float]:
        from ...scoring.scores import score  # scoring needs packages that training does not
        from ...scoring.transcripts import Prediction

        labels, names = prediction.label_ids
        utterances = zip(names, labels, prediction.predictions, strict=True)
        predictions = [
            Prediction(str(number), _decode_name(name), self._text(reference), None, self._text(hypothesis))
            for number, (name, reference, hypothesis) in enumerate(utterances)
        ]
        rates = score(predictions, self.profile).rates("cer")
        return {
            "worst_cer": max(rates.values()),
            "mean_cer": sum(rates.values()) / len(rates),
            **{f"cer/{name}": rate for name, rate in rates.items()},
        }

    def _text(self, labels: Any) -> str:
        return self.decode([int(label) for label in labels if label >= 0])


def encode_names(names: Iterable[str]) -> Tensor:
    """(B, L) padded bytes of the names, which the Trainer can gather together with the labels."""
    encoded = [torch.tensor(list(name.encode())) for name in names]
    return torch.nn.utils.rnn.pad_sequence(encoded, batch_first=True, padding_value=NO_LABEL)


def _decode_name(encoded: Any) -> str:
    return bytes(int(byte) for byte in encoded if byte >= 0).decode()


def decode_greedily(logits: Tensor, num_frames: Tensor, blank: int) -> Tensor:
    """(B, T) the best label of each frame; `NO_LABEL` for blanks, repetitions and padding."""
    best = logits.argmax(-1)
    is_new = torch.ones_like(best, dtype=torch.bool)
    is_new[:, 1:] = best[:, 1:] != best[:, :-1]
    is_within = torch.arange(best.shape[1], device=best.device) < num_frames[:, None]
    return best.where(is_new & is_within & (best != blank), NO_LABEL)


def check_evaluation(args: TrainingArguments, objective: Objective, compute_metrics: Any, eval_dataset: Any) -> None:
    """Rejects settings with which evaluations would not pass error rates by name to an objective that needs them."""
    checks = {
        "`compute_metrics=ErrorRates(…)`": isinstance(compute_metrics, ErrorRates),
        "`eval_strategy` steps or epoch": args.eval_strategy != "no",
        "one `eval_dataset`, not several": eval_dataset is not None and not isinstance(eval_dataset, dict),
        "an objective with `group_names`": objective.group_names is not None,
        # Otherwise a checkpoint may be saved after the last step of an epoch, but before its evaluation.
        "the same `save_strategy` as `eval_strategy`": args.save_strategy in ("no", "best", args.eval_strategy),
    }
    missing = [need for need, is_met in checks.items() if not is_met]
    if missing:
        raise ValueError(
            f'`objective` has signal="error_rate": its weights follow evaluations, which require {"; ".join(missing)}. '
            'Add what is missing, or use signal="loss_per_character".'
        )

"""ESPnet's CTC module with the loss of CTC-DRO."""

from __future__ import annotations

from typing import Any

import torch
from espnet2.asr.ctc import CTC
from espnet2.asr.espnet_model import ESPnetASRModel
from torch import Tensor

from ...objectives.ctc import Normalization, ctc_losses
from ...objectives.objective import Objective
from .data import Categories


class RobustCTC(CTC):
    """The CTC module `plain` with the loss of CTC-DRO in training, and its own loss otherwise."""

    def __init__(
        self, plain: CTC, objective: Objective, normalization: Normalization, num_language_tokens: int
    ) -> None:
        layer = plain.ctc_lo
        super().__init__(layer.out_features, layer.in_features, plain.dropout_rate, reduce=plain.reduce)
        self.ctc_lo, self.ctc_loss = layer, plain.ctc_loss
        self.objective = objective
        self.normalization: Normalization = normalization
        self.num_language_tokens = num_language_tokens
        self.groups: list[str] | None = None  # of the next batch
        self.register_state_dict_post_hook(_names_as_floats)
        self.register_load_state_dict_pre_hook(_names_as_bytes)

    def loss_fn(self, th_pred: Tensor, th_target: Tensor, th_ilen: Tensor, th_olen: Tensor) -> Tensor:
        if not (self.training and self.reduce):
            return super().loss_fn(th_pred, th_target, th_ilen, th_olen)
        assert self.groups is not None, "`set_groups` runs before every batch"
        log_probs = th_pred.log_softmax(2).float()
        losses = ctc_losses(log_probs, th_target, th_ilen, th_olen, normalization=self.normalization)
        return self.objective(losses, self.groups, (th_olen - self.num_language_tokens).clamp(min=0))

    def stats(self) -> dict[str, Tensor]:
        """The weight of each group and the number of utterances skipped so far, for ESPnet's reporter."""
        names, weights = self.objective.group_names or [], self.objective.weights.split(1)
        stats = {f"weight_{name}": weight for name, weight in zip(names, weights, strict=True)}
        return stats | {"num_skipped": self.objective.num_skipped.sum().reshape(1).float()}


# ESPnet averages the entries of the best models. Averaging must not change the group names, so state dictionaries store
# them as floating-point numbers, not as bytes.
def _names_as_floats(module: torch.nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    state[f"{prefix}objective._extra_state"] = state[f"{prefix}objective._extra_state"].float()


def _names_as_bytes(module: torch.nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    if (key := f"{prefix}objective._extra_state") in state:
        state[key] = state[key].to(torch.uint8)


def make_robust(model: ESPnetASRModel, objective: Objective, categories: Categories, **options: Any) -> None:
    """Replaces the CTC module of an ESPnet model with `RobustCTC`; parameters do not change."""
    if type(model) is not ESPnetASRModel:
        raise ValueError(f"ctc_type=ctcdro requires model: espnet; got {type(model).__name__}.")
    if model.ctc is None:
        raise ValueError(
            "ctc_type=ctcdro requires a positive `ctc_weight` in model_conf; got 0, so there is no CTC loss."
        )
    if model.interctc_weight > 0:
        raise ValueError(
            f"ctc_type=ctcdro requires `interctc_weight: 0` in model_conf; got {model.interctc_weight}. Otherwise the "
            "loss of every layer would change the group weights."
        )
    model.ctc = RobustCTC(model.ctc, objective, **options)

    def set_groups(model: ESPnetASRModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if model.training:
            model.ctc.groups = categories.of(kwargs["utt_id"])

    def report_weights(model: ESPnetASRModel, args: tuple[Any, ...], output: tuple[Any, ...]) -> tuple[Any, ...]:
        if not model.training:
            return output
        loss, stats, num_utterances = output
        # ESPnet averages over ranks in proportion to this number. With ones, all batches have the same influence, as in
        # a single process.
        return loss, stats | model.ctc.stats(), torch.ones_like(num_utterances)

    model.register_forward_pre_hook(set_groups, with_kwargs=True)
    model.register_forward_hook(report_weights)

"""Replacements for `torch.nn.CTCLoss`: with any objective, and with CTC-DRO."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from .ctc import Normalization, ctc_losses
from .ctc_dro import CTCDROOptions, ctc_dro
from .objective import Groups, Objective


class ObjectiveCTCLoss(nn.Module):
    """An objective as a replacement for `torch.nn.CTCLoss`: the same arguments, plus the group of each utterance.

    There is no `zero_infinity`: an utterance whose transcript does not fit into its frames is always skipped, and
    counted in `num_skipped`. Call `eval()` before validation, as you do for the model; otherwise validation batches
    change the weights.

    Args:
        objective: such as `error_weighted(…)`.
        blank: the blank label.
        normalization: as for `ctc_losses`.
        num_language_tokens: labels per transcript that are not characters, such as one language token.
            `signal="loss_per_character"` does not count them.

    Example:
        >>> from ctcdro import error_weighted
        >>> criterion = ObjectiveCTCLoss(error_weighted(num_groups=6))
        >>> log_probs = torch.zeros(50, 2, 20).log_softmax(-1)  # (frames, utterances, labels)
        >>> targets, groups = torch.randint(1, 20, (2, 10)), torch.tensor([3, 3])
        >>> criterion(log_probs, targets, torch.tensor([50, 40]), torch.tensor([10, 7]), groups).shape
        torch.Size([])
    """

    def __init__(
        self,
        objective: Objective,
        blank: int = 0,
        normalization: Normalization = "none",
        num_language_tokens: int = 0,
    ) -> None:
        super().__init__()
        self.objective = objective
        self.blank = blank
        self.normalization: Normalization = normalization
        self.num_language_tokens = num_language_tokens

    @property
    def weights(self) -> Tensor:
        """(G,) the weight of each group, on the simplex."""
        return self.objective.weights

    @property
    def num_skipped(self) -> Tensor:
        """(G,) utterances skipped because their transcript does not fit their frames."""
        return self.objective.num_skipped

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | list[int],
        target_lengths: Tensor | list[int],
        groups: Groups,
    ) -> Tensor:
        """Returns the number to minimize.

        Args:
            log_probs, targets, input_lengths, target_lengths: as for `ctc_losses`.
            groups: (N,) the group of each utterance, as a number; or as a name, with `group_names`.
        """
        losses = ctc_losses(log_probs, targets, input_lengths, target_lengths, self.blank, self.normalization)
        if not self.objective.needs_characters:
            return self.objective(losses, groups)
        num_characters = (torch.as_tensor(target_lengths) - self.num_language_tokens).clamp(min=0)
        return self.objective(losses, groups, num_characters)

    def extra_repr(self) -> str:
        return f"blank={self.blank}"


class CTCDROLoss(ObjectiveCTCLoss):
    """CTC-DRO as a replacement for `torch.nn.CTCLoss`: `ObjectiveCTCLoss(ctc_dro(…))`.

    Args:
        num_groups, step_size, smoothing: as for `ctc_dro`.
        blank, normalization, num_language_tokens: as for `ObjectiveCTCLoss`.
        **options: `reduction`, `signal`, `warmup_batches`, `group_names`, `process_group`; see `CTCDROOptions`.
    """

    def __init__(
        self,
        num_groups: int,
        step_size: float,
        smoothing: float,
        blank: int = 0,
        normalization: Normalization = "none",
        num_language_tokens: int = 0,
        **options: Unpack[CTCDROOptions],
    ) -> None:
        objective = ctc_dro(num_groups, step_size=step_size, smoothing=smoothing, **options)
        super().__init__(objective, blank, normalization, num_language_tokens)

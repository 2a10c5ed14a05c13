"""Attention masks for which the host does not wait for a GPU.

`transformers` omits the mask from attention if no frame is padding, and therefore reads the mask in every batch. The
encoders use it like that on a CPU, and keep the mask on other devices.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...objectives.host_memory import is_readable

NAME = "sdpa_without_waiting"


def mask_without_waiting(network: Any) -> None:
    """Replaces, in place, how a network that uses torch's scaled dot-product attention makes its mask."""
    if network.config._attn_implementation != "sdpa":
        return
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, sdpa_attention_forward)
    AttentionMaskInterface.register(NAME, _make_mask)
    network.set_attn_implementation(NAME)


def _make_mask(*, attention_mask: Tensor | None = None, **options: Any) -> Tensor | None:
    from transformers.masking_utils import sdpa_mask

    if attention_mask is not None and not is_readable(attention_mask):
        options["allow_is_bidirectional_skip"] = False
    mask: Tensor | None = sdpa_mask(attention_mask=attention_mask, **options)
    return mask

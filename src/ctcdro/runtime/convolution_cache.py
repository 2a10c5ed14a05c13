"""Limits the memory of convolutions on a CPU.

oneDNN, which computes them for torch, keeps compiled code and buffers for the last 1,024 shapes of inputs. Recordings
have pieces of many lengths, each a new shape: with Whisper's encoder, memory grew by 12 MB per shape, to gigabytes.
"""

from __future__ import annotations

import os

VARIABLE = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
CAPACITY = 64


def limit_convolution_cache() -> None:
    """Sets the limit, unless the user has set one. Has no effect after the first convolution of the process."""
    os.environ.setdefault(VARIABLE, str(CAPACITY))

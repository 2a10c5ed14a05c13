"""Ctrl-C and SIGTERM, which stop a run after a step, with a checkpoint."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelerate import Accelerator


class StopSignals:
    """A context that records Ctrl-C and SIGTERM instead of acting on them."""

    def __enter__(self) -> StopSignals:
        self._num_received = 0
        self._handlers = {number: signal.signal(number, self._record) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _record(self, number: int, frame: Any) -> None:
        self._num_received += 1

    def received(self, accelerator: Accelerator) -> bool:
        """Whether any process has received a signal. All processes must call it."""
        if accelerator.num_processes == 1:
            return self._num_received > 0
        import torch

        received = torch.tensor(float(self._num_received), device=accelerator.device)
        return bool(accelerator.reduce(received, "sum") > 0)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

"""Ctrl-C and SIGTERM, which stop a run after a step, with a checkpoint."""

from __future__ import annotations

import signal
from typing import Any


class StopSignals:
    """A context that records Ctrl-C and SIGTERM instead of acting on them."""

    def __init__(self) -> None:
        self.num_received = 0
        """In this process."""
        self.any_process_received = False
        """Whether any process had received a signal when the processes last exchanged their figures."""

    def __enter__(self) -> StopSignals:
        self._handlers = {number: signal.signal(number, self._record) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _record(self, number: int, frame: Any) -> None:
        self.num_received += 1

    def stops(self, num_processes: int) -> bool:
        """Whether to stop after this step; the same in all processes. One process need not wait for an exchange."""
        return self.any_process_received or (num_processes == 1 and self.num_received > 0)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

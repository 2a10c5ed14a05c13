"""Workarounds for Slurm without accounting: detects canceled jobs, and waits for files from other machines."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable, Sequence

QUERY_SECONDS = 20.0  # between queries, so that many sweeps do not overload Slurm
LOST_SECONDS = 60.0  # after which a job that left the queue without a result counts as failed
SHARED_FILES_SECONDS = 15.0  # after which all machines see a file on a shared disk


class SlurmQueue:
    """Finds jobs that left the queue without a result, for example after `scancel`."""

    def __init__(self) -> None:
        self._last_query = -math.inf
        self._missing_since: dict[str, float] = {}

    def lost(self, job_ids: Sequence[str]) -> set[str]:
        """Jobs that were missing from the queue for `LOST_SECONDS`."""
        now = time.monotonic()
        if now - self._last_query < QUERY_SECONDS:
            return set()
        self._last_query = now
        queued = _queued_jobs()
        if queued is None:
            return set()
        self._missing_since = {job: self._missing_since.get(job, now) for job in job_ids if job not in queued}
        return {job for job, since in self._missing_since.items() if now - since >= LOST_SECONDS}


def _queued_jobs() -> set[str] | None:
    """Pending and running jobs of this user; None if Slurm does not answer."""
    command = ["squeue", "--noheader", "--format=%A", f"--user={os.getuid()}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return set(answer.stdout.split())


def wait_for_shared_files(is_done: Callable[[], bool]) -> None:
    """Waits until `is_done` returns true, at most `SHARED_FILES_SECONDS`."""
    deadline = time.monotonic() + SHARED_FILES_SECONDS
    while not is_done() and time.monotonic() < deadline:
        time.sleep(1.0)

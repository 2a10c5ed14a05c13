"""How soon does the command line answer? .venv/bin/python benchmarks/startup.py

Each command is a process; the commands take turns. Wall-clock and CPU time, including the kernel's, are medians of all
rounds; files are in the system's cache. Ratios compare CPU time with `python -c pass`: medians, with a 95% bootstrap
interval. `import ctcdro` does not import torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from measuring import ResultTable, shown

CTCDRO = str(Path(sysconfig.get_path("scripts")) / "ctcdro")

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    'python -c "import ctcdro"': [sys.executable, "-c", "import ctcdro"],
    "ctcdro --help": [CTCDRO, "--help"],
    "ctcdro train --help": [CTCDRO, "train", "--help"],
    'python -c "from ctcdro import ctc_dro"': [sys.executable, "-c", "from ctcdro import ctc_dro"],
    'python -c "import torch"': [sys.executable, "-c", "import torch"],
}


def seconds_of_process(command: list[str]) -> tuple[float, float]:
    """Wall and processor time from start to end."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return wall, usage.ru_utime + usage.ru_stime


def measure(num_rounds: int) -> npt.NDArray[np.float64]:
    """(rounds, commands, 2) wall and processor seconds."""
    seconds = np.zeros((num_rounds, len(COMMANDS), 2))
    for number in range(-1, num_rounds):  # the first to read the files
        for which in np.random.default_rng(number + 1).permutation(len(COMMANDS)):
            seconds[max(number, 0), which] = seconds_of_process(list(COMMANDS.values())[which])
    return seconds


def main(num_rounds: int = 15) -> dict[str, ResultTable]:
    table = ResultTable("command", "wall-clock time (s)", "processor time (s)", "relative to `python -c pass`")
    seconds = measure(num_rounds)
    for number, name in enumerate(COMMANDS):
        wall, processor = np.median(seconds[:, number], axis=0)
        over = shown(seconds[:, number, 1] / seconds[:, 0, 1], digits=1) if number else ""
        table.add(f"`{name}`", f"{wall:.2f}", f"{processor:.2f}", over)
    return {"startup": table}


if __name__ == "__main__":
    main()

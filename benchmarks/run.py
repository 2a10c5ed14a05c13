"""Runs all benchmarks and writes results/<date>-<processor>.md: .venv/bin/python benchmarks/run.py"""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path

import loss_cost
import numpy as np
import reading
import sampler_matching
import sampler_planning
import startup
import torch

import decoding
import scoring
import training

HERE = Path(__file__).parent

SECTIONS = {
    "Cost of the robust loss": loss_cost,
    "Planning": sampler_planning,
    "Matching, padding, freshness": sampler_matching,
    "Reading audio": reading,
    "Training": training,
    "Decoding": decoding,
    "Scoring": scoring,
    "Start of the command line": startup,
}


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True)
    report = [
        f"# Benchmarks of {today}",
        "",
        f"Commit {commit.stdout.strip() or 'unknown'}; {processor()}, {os.cpu_count()} cores, {platform.system()}; "
        f"Python {platform.python_version()}, torch {torch.__version__} with {torch.get_num_threads()} threads, "
        f"numpy {np.__version__}. Made by `make bench`.",
    ]
    for title, benchmark in SECTIONS.items():
        print(f"\n{title}", flush=True)
        explanation = (benchmark.__doc__ or "").split("\n\n", 1)[1].strip()
        report += ["", f"## {title}", "", explanation, "", benchmark.main()]
    slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(.*?\)|@.*", "", processor()).lower()).strip("-")
    path = HERE / "results" / f"{today}-{slug}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(report) + "\n")
    print(f"\nwrote {path.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()

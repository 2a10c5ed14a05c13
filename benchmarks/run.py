"""Runs benchmarks and stores their tables in docs/results.json: .venv/bin/python benchmarks/run.py [NAME ...]

Without names it runs those of `make bench`. `make results` then updates the pages.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from measuring import ResultTable

DOCS = Path(__file__).parents[1] / "docs"
sys.path.append(str(DOCS))
from results_file import read_results, write_results  # type: ignore[import-not-found]  # noqa: E402

DEFAULT = (
    "loss_cost",
    "objective_cost",
    "sampler_planning",
    "sampler_matching",
    "reading",
    "training",
    "decoding",
    "scoring",
    "startup",
)
OTHERS = (
    "cost_model",
    "gpu",
    "interval_coverage",
    "large_files",
    "lhotse_stream",
    "padding_bound",
    "real_size",
    "sampler_peers",
    "scale",
    "sharding",
    "shard_training",
    "subgroup_search",
    "transcription_speed",
)


def machine() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else []
    processor = names[0] if names else platform.processor() or platform.machine()
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return ", ".join([processor, f"{os.cpu_count()} cores", *gpus, platform.system(), f"torch {torch.__version__}"])


def store(tables: dict[str, ResultTable], about: dict[str, Any]) -> None:
    """Replaces the tables of a benchmark; their titles and descriptions stay."""
    results = read_results()
    for name, table in tables.items():
        measured = {**about, "columns": list(table.columns), "rows": [list(row) for row in table.rows]}
        results["tables"][name] = {"title": name, "setup": "", **results["tables"].get(name, {}), **measured}
    write_results(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*DEFAULT, *OTHERS, []], metavar="NAME", help="such as loss_cost")
    names = parser.parse_args().names or DEFAULT
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=DOCS, capture_output=True, text=True)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for name in names:
        print(f"\n{name}", flush=True)
        tables = importlib.import_module(name).main()
        about = {"machine": machine(), "date": today, "commit": commit.stdout.strip() or "unknown"}
        store(tables, {**about, "command": f"python benchmarks/run.py {name}"})


if __name__ == "__main__":
    main()

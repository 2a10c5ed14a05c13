"""Memory and time of reading very long lists: python benchmarks/large_files.py [--lines 1000000] [--most 10000000].

Each reader runs in a separate process, on a manifest of one line and on one of `--lines` lines. The difference in
memory, divided by the number of lines, is the memory per line. Readers that keep nothing also run on `--most` lines.
Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from measuring import ResultTable, in_own_process


def lines(path: Path) -> None:
    """Reads the lines of a file, as all readers do."""
    from ctcdro.storage.lines import numbered_lines

    for _ in numbered_lines(path):
        pass


def utterances(path: Path) -> None:
    """Reads and checks utterances without keeping them."""
    from ctcdro.speech.manifest import read_utterances

    for _ in read_utterances(path):
        pass


def records(path: Path) -> None:
    """Reads and checks JSON lines of other programs without keeping them."""
    from ctcdro.storage.json_files import scan_json_lines

    for _ in scan_json_lines(path):
        pass


def manifest(path: Path) -> None:
    """Keeps all utterances, as at the start of training."""
    from ctcdro import Manifest

    Manifest.read(path)


def check(path: Path) -> None:
    """Runs the code of `ctcdro check --headers-only`; the audio is one short file."""
    from ctcdro.check.check import check_dataset

    check_dataset(path.parent, decode=False, num_threads=1)


def prepare_nemo(path: Path) -> None:
    """Runs the code of `ctcdro prepare nemo`, which writes a new manifest."""
    from ctcdro.prepare.prepare import prepare
    from ctcdro.prepare.readers.nemo import read_nemo

    with tempfile.TemporaryDirectory(dir=path.parent) as out:
        prepare(read_nemo({"train": [path]}), out, about={"reader": "nemo"}, num_threads=1)


STREAMING: tuple[Callable[[Path], None], ...] = (lines, utterances, records)
KEEPING: tuple[Callable[[Path], None], ...] = (check, prepare_nemo, manifest)


def write(folder: Path, num_lines: int) -> Path:
    """Writes a manifest of utterances of one second."""
    import numpy as np
    import soundfile

    folder.mkdir(parents=True)
    soundfile.write(folder / "a.wav", 0.1 * np.sin(np.arange(16_000)), 16_000)
    path = folder / "train.jsonl"
    record = {"audio_filepath": "a.wav", "duration": 1.0, "text": "", "lang": "ces", "id": "", "corpus": "cv"}
    with open(path, "w", encoding="utf-8") as file:
        for number in range(num_lines):
            record |= {"id": f"cv_ces_{number:09d}", "text": f"dobrý den {number}", "speaker": f"s{number % 5000}"}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return path


def main(num_lines: int = 1_000_000, max_lines: int = 10_000_000) -> dict[str, ResultTable]:
    table = ResultTable("reader", "lines", "seconds", "peak memory (MB)", "bytes per line")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one, many = write(folder / "one", 1), write(folder / "many", num_lines)
        for call in (*STREAMING, *KEEPING):
            add_row(table, call, one, many, num_lines)
        if max_lines:
            most = write(folder / "most", max_lines)
            for call in STREAMING:
                add_row(table, call, one, most, max_lines)
    return {"memory-per-line": table}


def add_row(table: ResultTable, call: Callable[[Path], None], one: Path, many: Path, num_lines: int) -> None:
    seconds, held = in_own_process(call, many)
    per_line = (held - in_own_process(call, one).memory) / num_lines
    name = f"`{call.__name__}`"
    table.add(name, f"{num_lines:,}", f"{seconds:.1f}", f"{held / 1e6:,.0f}", f"{per_line:,.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--most", type=int, default=10_000_000)
    options = parser.parse_args()
    main(options.lines, options.most)

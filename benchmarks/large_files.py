"""Memory and time of reading very long lists: python benchmarks/large_files.py [--lines 1000000] [--most 10000000].

Each reader runs in a process of its own on manifests of one and of `--lines` lines; what the larger takes more, over
its lines, is what a line takes. Those that keep nothing are run on `--most` lines, too. Prints a table, in Markdown.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def lines(path: Path) -> None:
    """The lines of a file, as all readers get them."""
    from ctcdro.files import numbered_lines

    for _ in numbered_lines(path):
        pass


def utterances(path: Path) -> None:
    """Utterances, each checked and forgotten."""
    from ctcdro.utterance import read_utterances

    for _ in read_utterances(path):
        pass


def records(path: Path) -> None:
    """Lines of other programs, each checked and forgotten."""
    from ctcdro.data.json_records import read_records

    for _ in read_records(path):
        pass


def manifest(path: Path) -> None:
    """All utterances, kept: what a training begins with."""
    from ctcdro import Manifest

    Manifest.read(path)


def check(path: Path) -> None:
    """What `ctcdro check --headers-only` does; the audio is one short file."""
    from ctcdro.data.checking import check_dataset

    check_dataset(path.parent, decode=False, num_threads=1)


STREAMING: tuple[Callable[[Path], None], ...] = (lines, utterances, records)
KEEPING: tuple[Callable[[Path], None], ...] = (manifest, check)


def write(folder: Path, num_lines: int) -> Path:
    """A manifest of so many utterances of one second."""
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


def measured(call: Callable[[Path], None], path: Path) -> tuple[float, float]:
    """Seconds, and the most bytes that were held, of a call in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(call.__name__, path, sender))
    process.start()
    result = receiver.recv()
    process.join()
    return result


def _measure(name: str, path: Path, sender: object) -> None:
    begun = time.perf_counter()
    globals()[name](path)
    seconds = time.perf_counter() - begun
    sender.send((seconds, 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--most", type=int, default=10_000_000)
    options = parser.parse_args()
    print("| reader | lines | seconds | most memory | bytes a line |\n|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one, many = write(folder / "one", 1), write(folder / "many", options.lines)
        for call in (*STREAMING, *KEEPING):
            _, before = measured(call, one)
            row(call, options.lines, *measured(call, many), before)
        most = write(folder / "most", options.most) if options.most else None
        for call in STREAMING if most else ():
            _, before = measured(call, one)
            row(call, options.most, *measured(call, most), before)  # type: ignore[arg-type]


def row(call: Callable[[Path], None], num_lines: int, seconds: float, held: float, before: float) -> None:
    a_line = (held - before) / num_lines
    print(f"| {call.__name__} | {num_lines:,} | {seconds:.1f} | {held / 1e6:,.0f} MB | {a_line:,.0f} |", flush=True)


if __name__ == "__main__":
    main()

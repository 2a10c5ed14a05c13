"""The demonstration: a synthetic corpus of six languages, three objectives, their scores, and a page to look at.

    demo("ctcdro-demo")

A demonstration is the folder of a sweep, with `corpus/` and `report.html` in it. Stopped, the same call goes on; what
is finished is not done again. The runs are in demo.yaml, beside this file. Each has one thread, so that the same call
gives the same table whatever the number of cores.

The speech is made by eSpeak NG: it shows what the method does, and nothing about human speech.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..storage.paths import PathLike
from ..synthetic.spec import DEMO_SPECS, SpeechSpec

with extra("demo", "The demonstration"):
    from ..sweeps.jobs import Place, Watch
    from ..sweeps.sweep import Swept, sweep
    from ..sweeps.sweep_config import SweepConfig, read_sweep
    from ..synthetic.corpus import make_corpus

RUNS = Path(__file__).with_name("demo.yaml")


def demo(
    out: PathLike,
    seed: int = 0,
    *,
    specs: Mapping[str, SpeechSpec] = DEMO_SPECS,
    num_steps: int | None = None,
    num_jobs: int | None = None,
    track: Track = untracked,
    watch: Watch = lambda state: None,
) -> Swept:
    """Makes the corpus, trains and tests all runs, and writes the page.

    Args:
        out: the folder.
        seed: of training; the corpus is always the same.
        specs: of the corpus.
        num_steps: of each run, instead of those of demo.yaml.
        num_jobs: runs at a time; by default all.
        track: shows how far the corpus is.
        watch: is told how far the runs are.

    Raises:
        ValueError: if `out` has a demonstration with other options.
        ImportError: if an extra is missing.
        KeyboardInterrupt: after Ctrl-C, SIGTERM or SIGHUP; the same call goes on.
    """
    folder = Path(out)
    if not _has_corpus(folder / "corpus", specs):
        make_corpus(folder / "corpus", specs, track=track)
    config = demo_sweep(folder / "corpus", seed, num_steps)
    place = Place(num_jobs=num_jobs or len(config.grid()), num_threads=1)
    swept = sweep(config, folder, place, watch)
    if not swept.failures and not page(folder).exists():
        from ..report.page import write_report

        write_report([swept.folder.path], page(folder), track=track)
    return swept


def page(out: PathLike) -> Path:
    """Where the page of a demonstration is."""
    return Path(out) / "report.html"


def demo_sweep(corpus: PathLike, seed: int = 0, num_steps: int | None = None) -> SweepConfig:
    """The runs of the demonstration.

    Example:
        >>> [setting.objective for setting in demo_sweep("corpus").grid()]
        ['erm', 'group-dro', 'ctc-dro']
    """
    overrides = [f"run.dataset={json.dumps(str(corpus))}", f"seeds=[{seed}]"]
    if num_steps is not None:
        overrides += ["run.training.epochs=1", f"run.training.batches_per_epoch={num_steps}"]
    return read_sweep(RUNS, overrides)


def _has_corpus(corpus: Path, specs: Mapping[str, SpeechSpec]) -> bool:
    """Whether the corpus is there; to find out by making it takes some seconds.

    Raises:
        ValueError: if another is.
    """
    are_there = [(corpus / f"{split}.jsonl").is_file() for split in ("train", "dev", "test")]
    if not any(are_there):
        return False
    try:
        there = json.loads((corpus / "dataset.json").read_bytes())["recipes"]
    except (OSError, ValueError, KeyError, TypeError):
        there = None
    if there != json.loads(json.dumps({name: asdict(spec) for name, spec in specs.items()})):
        raise ValueError(f"{corpus} has a corpus of other minutes or languages; give another --out.")
    return all(are_there)

"""The demo: a synthetic corpus of six languages, a sweep over four objectives, and a report.

    demo("ctcdro-demo")

A demo folder is the folder of a sweep that also contains `corpus/` and `report.html`. Call `demo` again to resume. Each
run of demo.yaml uses one CPU thread, so the table does not depend on the number of cores or GPUs.

eSpeak NG generates the speech: the demo shows the method, and says nothing about accuracy on human speech.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ..runtime.extras import extra
from ..runtime.progress import Track, untracked
from ..storage.json_files import read_json
from ..storage.paths import PathLike
from ..synthetic.spec import DEMO_SPECS, SpeechSpec

with extra("demo", "The demonstration"):
    from ..sweeps.config import SweepConfig, read_sweep
    from ..sweeps.jobs import JobCallback
    from ..sweeps.submission import JobOptions
    from ..sweeps.sweep import SweepResult, sweep
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
    callback: JobCallback = lambda state: None,
) -> SweepResult:
    """Generates the corpus, trains and scores all runs, and writes the report.

    Args:
        seed: seed of training; the corpus is always the same.
        num_steps: steps per run; by default those of demo.yaml.
        num_jobs: number of parallel runs; by default all.
        track: shows the progress of the corpus.
        callback: called with the state of the runs, several times per second.

    Raises:
        ValueError: if `out` contains a demo with other options.
        KeyboardInterrupt: after Ctrl-C, SIGTERM or SIGHUP; call it again to resume.
    """
    folder = Path(out)
    corpus, page = folder / "corpus", folder / "report.html"
    if not (_has_corpus(corpus, specs) and page.exists()):
        make_corpus(corpus, specs, track=track)
    config = demo_sweep(corpus, seed, num_steps)
    options = JobOptions(num_jobs=num_jobs or len(config.grid()), num_threads=1, cpu=True)
    result = sweep(config, folder, options, callback)
    if not result.failures and not page.exists():
        from ..report.page import write_report

        write_report([folder], page, track=track)
    return result


def _has_corpus(corpus: Path, specs: Mapping[str, SpeechSpec]) -> bool:
    """Whether the corpus exists; a corpus with other specs is rejected."""
    manifest, about = corpus / "train.jsonl", corpus / "dataset.json"
    if not manifest.exists():
        return False
    found = read_json(about).get("recipes") if about.exists() else None
    expected = {language: asdict(spec) for language, spec in specs.items()}
    if json.dumps(found, sort_keys=True) != json.dumps(expected, sort_keys=True):
        raise ValueError(f"{corpus} already contains a corpus built with other options. Choose another --out.")
    return True


def demo_sweep(corpus: PathLike, seed: int = 0, num_steps: int | None = None) -> SweepConfig:
    """The sweep of the demo."""
    overrides = [f"run.dataset={json.dumps(str(corpus))}", f"seeds=[{seed}]"]
    if num_steps is not None:
        overrides += [f"run.training.num_batches={num_steps}"]
    return read_sweep(RUNS, overrides)

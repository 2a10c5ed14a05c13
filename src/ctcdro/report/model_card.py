"""A page about a model: data, languages, results by language, and limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..runs.config import BatchConfig, Config, read_config
from ..runs.folder import RunFolder, is_number, read_about
from ..scoring.formatting import format_percent
from ..scoring.scores import read_scores
from ..speech.vocabulary import Vocabulary
from ..storage.json_files import read_log

LIMITS = """## Limits

Results are of the data named above, and say little of other speakers, microphones and topics. Text comes in the
normalized form of the training data. A language that is not listed is taken for one that is.
"""


def model_card(folder: RunFolder) -> str:
    """The card of the model of a finished run, as Markdown with the header that the hub reads."""
    config = read_config(folder.config)
    vocabulary = Vocabulary.load(folder.vocabulary)
    parts = [
        _header(vocabulary),
        f"# Speech recognition in {len(vocabulary.languages)} languages\n",
        f"Languages: {', '.join(map(_shown, vocabulary.languages))}. Output is a language token, such as "
        f"`[{_shown(vocabulary.languages[0])}]`, then characters; there are {len(vocabulary)} labels.\n",
        _training(config, folder),
        _results(folder),
        _weights(folder),
        LIMITS,
    ]
    return "\n".join(part for part in parts if part)


def _header(vocabulary: Vocabulary) -> str:
    # In quotes, or `no` would be false.
    languages = "\n".join(f"- {json.dumps(language, ensure_ascii=False)}" for language in vocabulary.languages)
    return f"---\nlanguage:\n{languages}\npipeline_tag: automatic-speech-recognition\ntags:\n- ctc-dro\n---\n"


def _training(config: Config, folder: RunFolder) -> str:
    about = read_about(folder)
    versions = about.get("versions")
    objective = config.objective
    rows = {
        "dataset": config.dataset.name,
        "encoder": _encoder(config.model.encoder),
        "head": config.model.head,
        "objective": objective.name,
        "step size": f"{objective.step_size:g}" if objective.name != "erm" else None,
        "smoothing": f"{objective.smoothing:g}" if objective.name == "ctc-dro" else None,
        "batches": _batches(config.batches),
        "learning rate": f"{config.optimizer.learning_rate:g}",
        "steps": about.get("steps"),
        "seed": config.seed,
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items())
        if isinstance(versions, dict)
        else None,
    }
    lines = [f"| {name} | {_shown(value)} |" for name, value in rows.items() if value is not None]
    return "## Training\n\n| | |\n|---|---|\n" + "\n".join(lines) + "\n"


def _encoder(encoder: str) -> str:
    """A name on the hub, or that of the folder: where it was is nobody's affair."""
    path = Path(encoder)
    return path.resolve().name if path.is_absolute() or path.is_dir() or encoder.startswith((".", "~")) else encoder


def _batches(batches: BatchConfig) -> str:
    is_of_seconds = batches.sampler == "length-matched"
    size = f"{batches.batch_duration:g} s" if is_of_seconds else f"{batches.batch_size} utterances"
    return f"{batches.sampler}, {size}"


def _results(folder: RunFolder) -> str:
    path = folder.scores("test")
    if not path.exists():
        return "## Results\n\nThere are none: the model was not evaluated on test data.\n"
    scores = read_scores(path)
    rows = [
        f"| {_shown(language)} | {format_percent(one.cer)} | {format_percent(one.wer)} | {format_percent(one.lid)} | "
        f"{one.num_utterances} |"
        for language, one in scores.languages.items()
    ]
    worst = scores.worst()
    summary = (
        f"Worst: {_shown(worst[0])}, {format_percent(worst[1])} CER; mean {format_percent(scores.mean())}."
        if worst
        else ""
    )
    return (
        f"## Results\n\nTest data, profile `{scores.profile}`, in per cent.\n\n"
        "| language | CER | WER | LID | utterances |\n|---|---|---|---|---|\n" + "\n".join(rows) + f"\n\n{summary}\n"
    )


def _weights(folder: RunFolder) -> str:
    last = None
    for last in read_log(folder.group_weights):  # noqa: B007
        pass
    if last is None:
        return ""
    weights = last.get("weights")
    if not isinstance(weights, dict) or not all(map(is_number, weights.values())):
        raise ValueError(f"{folder.group_weights}: expected weights on its last line; got {last!r:.60}.")
    weights = ", ".join(f"{_shown(name)} {weight:.3f}" for name, weight in weights.items())
    return f"Group weights at the end of training: {weights}.\n"


def _shown(value: Any) -> str:
    """A name from data as Markdown shows it: it is no tag, and ends neither a cell nor code."""
    text = " ".join(str(value).split()).replace("`", "'")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")

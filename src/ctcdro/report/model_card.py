"""The model card: data, languages, results per language, and limitations."""

from __future__ import annotations

import json
from pathlib import Path

from ..objectives.methods import METHODS
from ..runs.config import Config, read_config
from ..runs.folder import RunFolder, read_about
from ..scoring.scores import read_scores
from ..speech.language_names import language_name
from ..speech.vocabulary import Vocabulary
from .read_runs import read_weights
from .table import Column, Table, escape_markdown
from .tables.scores import scores_table

LIMITATIONS = """## Limitations

The results apply to the data above. Accuracy may differ for other speakers, microphones and topics. The output is
normalized like the training texts. Speech in any other language is recognized as one of the listed languages.
"""


def model_card(folder: RunFolder) -> str:
    """The model card of a finished run: Markdown with the metadata header of the Hugging Face Hub."""
    config = read_config(folder.config)
    vocabulary = Vocabulary.load(folder.vocabulary)
    languages = [escape_markdown(language_name(language)) for language in vocabulary.languages]
    token = escape_markdown(f"[{vocabulary.languages[0]}]")
    parts = [
        _header(vocabulary),
        f"# Speech recognition in {len(languages)} languages\n",
        f"Languages: {', '.join(languages)}. The output is a language token, such as {token}, followed by characters. "
        f"The vocabulary has {len(vocabulary)} labels.\n",
        "## Training\n",
        _training_table(config, folder).to_markdown(),
        _results(folder),
        _weights(folder),
        LIMITATIONS,
    ]
    return "\n".join(part for part in parts if part)


def _header(vocabulary: Vocabulary) -> str:
    # Quoted, because YAML reads the code `no` as false.
    languages = "\n".join(f"- {json.dumps(language, ensure_ascii=False)}" for language in vocabulary.languages)
    return f"---\nlanguage:\n{languages}\npipeline_tag: automatic-speech-recognition\ntags:\n- ctc-dro\n---\n"


def _training_table(config: Config, folder: RunFolder) -> Table:
    about = read_about(folder)
    method, versions = METHODS[config.objective.name], about.get("versions")
    sampling = config.sampling
    has_duration = config.sampler in ("length-matched", "adaptive")
    size = f"{sampling.batch_duration:g} s" if has_duration else f"{sampling.batch_size} utterances"
    tuned = {name.replace("_", " "): f"{getattr(config.objective, name):g}" for name in method.tuned}
    rows = {
        "dataset": config.dataset.name,
        "encoder": encoder_name(config.model.encoder),
        "head": config.model.head,
        "objective": method.title,
        **tuned,
        "batches": f"{config.sampler}, {size}",
        "learning rate": f"{config.optimizer.learning_rate:g}",
        "steps": about.get("steps"),
        "seed": config.seed,
    }
    if isinstance(versions, dict):
        rows["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    columns: list[Column[str]] = [Column("setting", lambda name: name), Column("value", lambda name: str(rows[name]))]
    return Table.of("training", "", columns, [name for name, value in rows.items() if value is not None])


def encoder_name(encoder: str) -> str:
    """The name on the Hub, or the name of a folder without its path, which is private."""
    path = Path(encoder)
    return path.resolve().name if path.is_absolute() or path.is_dir() or encoder.startswith((".", "~")) else encoder


def _results(folder: RunFolder) -> str:
    if not folder.scores("test").exists():
        return "## Results\n\nThe model has not been evaluated on test data.\n"
    scores = read_scores(folder.scores("test"))
    heading = f"## Results\n\nRates on the test data in percent, with scoring profile `{scores.profile}`.\n"
    return f"{heading}\n{scores_table(scores).to_markdown()}"


def _weights(folder: RunFolder) -> str:
    groups = read_weights(folder).groups
    shown = ", ".join(f"{escape_markdown(language_name(name))} {weights[-1]:.3f}" for name, weights in groups.items())
    return f"Group weights at the end of training: {shown}.\n" if groups else ""

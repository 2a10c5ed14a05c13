"""The model card: data, languages, results per language, and limitations."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from ..objectives.methods import METHODS
from ..runs.config import Config, read_config
from ..runs.folder import RunFolder, read_about
from ..scoring.scores import read_scores
from ..speech.language_names import language_name
from ..speech.vocabulary import Vocabulary
from .card_metadata import metadata_header, model_index
from .read_runs import read_weights
from .table import Column, Table, escape_markdown
from .tables.scores import scores_table

LIMITATIONS = """## Limitations

The results apply to the data above. Accuracy may differ for other speakers, microphones and topics. The output is
normalized like the training texts. Speech in any other language is recognized as one of the listed languages.
"""

LoadedBy: TypeAlias = Literal["transformers", "transformers-custom", "onnx"]

USAGE: dict[LoadedBy, str] = {
    "transformers": """## Usage

```python
import transformers

recognize = transformers.pipeline("automatic-speech-recognition", "path/to/this/folder")
recognize("a.wav")
```
""",
    "transformers-custom": """## Usage

The folder contains the code of the model, which needs torch and transformers only.

```python
import transformers

recognize = transformers.pipeline("automatic-speech-recognition", "path/to/this/folder", trust_remote_code=True)
recognize("a.wav")
```
""",
    "onnx": """## Usage

The graph computes log probabilities from audio. It needs onnxruntime only.

| name | shape | content |
| --- | --- | --- |
| `input_values` | (batch, samples) | float32 audio at 16 kHz |
| `input_lengths` | (batch,) | int64, samples per utterance |
| `logprobs` | (batch, frames, labels) | float32 log probabilities; label 0 is the blank |
| `logprobs_lengths` | (batch,) | int64, frames per utterance |

The labels are in `tokens.txt` and in the metadata of the graph.
""",
}


def model_card(folder: RunFolder, loaded_by: LoadedBy | None = None) -> str:
    """The model card of a finished run: Markdown with the metadata header of the Hugging Face Hub.

    Args:
        folder: the run.
        loaded_by: what loads the exported model, to explain its usage.
    """
    config = read_config(folder.config)
    vocabulary = Vocabulary.load(folder.vocabulary)
    languages = [escape_markdown(language_name(language)) for language in vocabulary.languages]
    token = escape_markdown(f"[{vocabulary.languages[0]}]")
    parts = [
        _header(folder, config, vocabulary, loaded_by),
        f"# Speech recognition in {len(languages)} languages\n",
        f"Languages: {', '.join(languages)}. The output is a language token, such as {token}, followed by characters. "
        f"The vocabulary has {len(vocabulary)} labels.\n",
        USAGE[loaded_by] if loaded_by else "",
        "## Training\n",
        _training_table(config, folder).to_markdown(),
        _results(folder),
        _weights(folder),
        LIMITATIONS,
    ]
    return "\n".join(part for part in parts if part)


def _header(folder: RunFolder, config: Config, vocabulary: Vocabulary, loaded_by: LoadedBy | None) -> str:
    library = loaded_by.removesuffix("-custom") if loaded_by else None
    results = None
    if folder.scores("test").exists():
        scores = read_scores(folder.scores("test"))
        results = model_index(folder.path.resolve().name, config.dataset.name, scores)
    return metadata_header(vocabulary.languages, library, results)


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

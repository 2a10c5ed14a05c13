"""The metadata of a model card in the schema of the Hugging Face Hub: languages, tags, results for leaderboards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..scoring.scores import Scores

TASK = {"type": "automatic-speech-recognition", "name": "Automatic Speech Recognition"}


def metadata_header(languages: Iterable[str], library: str | None, results: Mapping[str, Any] | None) -> str:
    """YAML between two lines of dashes. `results` is an entry of `model-index`, or None."""
    # Values are JSON, which YAML includes. Without quotes, YAML would read the code `no` as false.
    lines = ["---", "language:", *(f"- {_json(language)}" for language in languages)]
    lines += [f"library_name: {library}"] if library else []
    lines += ["pipeline_tag: automatic-speech-recognition", "tags:", "- ctc-dro"]
    if results is not None:
        lines += ["model-index:", f"- name: {_json(results['name'])}", "  results:"]
        lines += [f"  - {_json(result)}" for result in results["results"]]
    return "\n".join([*lines, "---", ""])


def model_index(name: str, dataset: str, scores: Scores) -> dict[str, Any]:
    """CER in percent on the test data: per language, and worst and mean over languages.

    Args:
        name: name of the model.
        dataset: name of the dataset.
        scores: scores on its test data.
    """
    summary = {"worst CER over languages": scores.worst(), "mean CER over languages": (None, scores.mean())}
    overall = [_cer(rate[1], name) for name, rate in summary.items() if rate is not None and rate[1] is not None]
    by_language = {language: [_cer(rate, "CER")] for language, rate in scores.rates("cer").items()}
    return {
        "name": name,
        "results": [
            {"task": TASK, "dataset": _dataset(dataset, config), "metrics": metrics}
            for config, metrics in {"all languages": overall, **by_language}.items()
            if metrics
        ],
    }


def _dataset(name: str, config: str) -> dict[str, str]:
    # The type is the id of a dataset on the Hub, and must look like one.
    return {"name": name, "type": re.sub(r"[^\w./-]+", "-", name), "config": config, "split": "test"}


def _cer(rate: float, name: str) -> dict[str, Any]:
    return {"type": "cer", "value": round(100 * rate, 2), "name": name}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

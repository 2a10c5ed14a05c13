"""Reads and writes docs/results.json, with one line per list or object that holds no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.json")


def read_results(path: Path = RESULTS) -> dict[str, Any]:
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return results


def write_results(results: dict[str, Any], path: Path = RESULTS) -> None:
    text = json.dumps(results, ensure_ascii=False, indent=1)
    no_others = r'(?:[^][{}"]|"(?:[^"\\]|\\.)*")*'
    one_line = re.sub(rf"[\[{{]{no_others}[\]}}]", lambda match: re.sub(r"\n *", " ", match[0]), text)
    path.write_text(one_line + "\n", encoding="utf-8")

"""Files that expand when read, and long manifests: memory stays bounded."""

import gzip
import json
import os
import re
import time
import tracemalloc
from contextlib import contextmanager

import pytest

from ctcdro import Manifest
from ctcdro.scoring.transcripts import MOST_CHARACTERS, read_predictions
from ctcdro.speech.manifest import read_utterances
from ctcdro.speech.normalization import PROFILES
from ctcdro.storage.json_files import scan_json_lines
from ctcdro.storage.lines import MAX_LINE_BYTES, numbered_lines

LINE = b'{"audio_filepath": "a.wav", "duration": 1.0, "text": "ahoj", "lang": "ces"}\n'


@contextmanager
def holding_less_than(num_bytes):
    """Checks the peak memory of Python."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < num_bytes
    finally:
        tracemalloc.stop()


def test_readers_hold_a_line_at_a_time(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_bytes(LINE * 5_000)
    for read in (numbered_lines, read_utterances, scan_json_lines):
        with holding_less_than(250_000):
            assert sum(1 for _ in read(path)) == 5_000


@pytest.mark.parametrize("name", ["bomb.jsonl", "bomb.jsonl.gz"])
def test_a_line_without_end_is_not_held_whole(tmp_path, name):
    """A hundred megabytes compress to a hundred kilobytes; a sparse file takes no space at all."""
    path = tmp_path / name
    if name.endswith(".gz"):
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(LINE)
            for _ in range(20):
                file.write(bytes(5_000_000))
    else:
        path.write_bytes(LINE)
        os.truncate(path, 10_000_000_000)
    refused = pytest.raises(ValueError, match=rf"{re.escape(name)}:2: the line has more than 16,777,216 bytes")
    with holding_less_than(6 * MAX_LINE_BYTES), refused:
        Manifest.read(path)


def test_any_number_of_blank_lines_is_skipped(tmp_path):
    path = tmp_path / "blank.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(LINE + b"\n" * 200_000 + LINE)
    with holding_less_than(200_000):
        assert len(Manifest.read(path)) == 2


def test_profiles_take_linear_time():
    for text in ("[" * 10**6, "(" * 10**6, "[a" * 10**6, "] [" * 10**6, "[" * 10**6 + "]"):
        start = time.process_time()
        for profile in PROFILES.values():
            profile(text)
        assert time.process_time() - start < 30  # quadratic time would be days


def test_texts_too_long_to_count_edits_of_are_rejected(tmp_path):
    record = {"id": "a", "lang": "ces", "text": "a", "hyp_lang": None, "hyp_text": "a" * (MOST_CHARACTERS + 1)}
    (tmp_path / "predictions.jsonl").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"predictions\.jsonl:1: `hyp_text` must have at most 200,000 characters"):
        read_predictions(tmp_path / "predictions.jsonl")

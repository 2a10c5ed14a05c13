"""Damaged lists of utterances: manifests, corpora of other programs, references and hypotheses."""

import json
import os
from itertools import pairwise

import pytest
from hostile import FUZZ, altered, as_json, damaged, is_reported
from hypothesis import given
from hypothesis import strategies as st
from layouts import write_audio

from ctcdro import Manifest
from ctcdro.check.check import check_dataset
from ctcdro.prepare.entries import SPLITS
from ctcdro.prepare.prepare import prepare
from ctcdro.prepare.readers.common_voice import read_common_voice
from ctcdro.prepare.readers.fleurs import read_fleurs
from ctcdro.prepare.readers.kaldi import read_kaldi
from ctcdro.prepare.readers.lhotse import read_lhotse
from ctcdro.prepare.readers.ml_superb import read_ml_superb
from ctcdro.prepare.readers.nemo import read_nemo
from ctcdro.scoring.profiles import PROFILES
from ctcdro.scoring.scores import count
from ctcdro.scoring.transcripts import match, read_hypotheses, read_predictions, read_references, write_predictions
from ctcdro.storage.json_files import scan_json_lines
from ctcdro.storage.lines import numbered_lines

UTTERANCE = {"audio_filepath": "a.wav", "duration": 1.0, "text": "dobrý den", "lang": "ces", "id": "a1", "offset": 0.0}
VALID = as_json(UTTERANCE) + b"\n"
MANIFEST = VALID + as_json({**UTTERANCE, "id": "a2", "speaker": "s", "corpus": "cv", "more": {"a": [1]}}) + b"\n"
# An altered line between valid ones, so reading around it is checked too.
LINES = st.one_of(damaged(MANIFEST), altered(UTTERANCE).map(lambda record: VALID + as_json(record) + b"\n" + VALID))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lists")
    write_audio(folder / "a.wav", 1.0)
    yield folder
    assert not [name for name in os.listdir(folder) if name.startswith(".")], "temporary files are left"


@given(LINES)
@FUZZ
def test_manifests(folder, content):
    path = folder / "manifest.jsonl"
    path.write_bytes(content)
    manifest = is_reported(lambda: Manifest.read(path), path)
    if manifest is not None:
        manifest.groups("lang")
        is_reported(lambda: manifest.groups("lang,corpus"), path)
        copy = folder / "copy.jsonl"
        is_reported(lambda: manifest.write(copy), copy, path)
        assert [one.text for one in Manifest.read(copy)] == [one.text for one in manifest]


@given(st.one_of(st.binary(max_size=200), damaged(b"a\r\nb\n\n\xc5\x99\n")))
@FUZZ
def test_lines(folder, content):
    path = folder / "lines.txt"
    path.write_bytes(content)
    lines = is_reported(lambda: list(numbered_lines(path)), path)
    for (number, _), (following, _) in pairwise(lines or []):
        assert number < following
    assert isinstance(list(scan_json_lines(path)), list)  # continues after invalid lines


@given(LINES)
@FUZZ
def test_datasets_to_check(folder, content):
    for split in SPLITS:
        (folder / f"{split}.jsonl").write_bytes(content if split != "dev" else MANIFEST)
    report = is_reported(lambda: check_dataset(folder, num_threads=1), folder)
    if report is not None:
        json.loads(report.to_json()), report.to_json().encode()
        assert all(str(folder) in finding.where for finding in report.findings)


def prepared(folder, listed):
    """Prepares what a reader returns, as `ctcdro prepare` does; errors name the list, dropped entries their line."""
    out = folder / "out"
    done = is_reported(lambda: prepare(listed, out, {}, "clean", overwrite=True, num_threads=1), folder)
    if done is not None:
        Manifest.read(out / "train.jsonl")
        dropped = [json.loads(line) for _, line in numbered_lines(out / "dropped.jsonl")]
        assert all(str(folder) in one["where"] for one in dropped)


@given(LINES)
@FUZZ
def test_lists_of_nemo(folder, content):
    path = folder / "nemo.json"
    path.write_bytes(content)
    prepared(folder, read_nemo({"train": [path]}, lang="ces"))


RECORDING = {"id": "r", "sources": [{"type": "file", "channels": [0], "source": "a.wav"}], "sampling_rate": 16000}
SUPERVISION = {"id": "s", "recording_id": "r", "start": 0.0, "duration": 0.5, "text": "ahoj", "language": "ces"}
CUT = {"id": "c", "start": 0.1, "duration": 0.8, "recording": RECORDING, "supervisions": [SUPERVISION]}
LHOTSE = [as_json(one) + b"\n" for one in (RECORDING, SUPERVISION, CUT)]


@given(
    st.one_of(
        damaged(b"".join(LHOTSE)),
        altered({"all": [RECORDING, SUPERVISION, CUT]}).map(
            lambda record: b"\n".join(map(as_json, record["all"] if isinstance(record.get("all"), list) else []))
        ),
    )
)
@FUZZ
def test_lists_of_lhotse(folder, content):
    path = folder / "cuts.jsonl"
    path.write_bytes(content)
    prepared(folder, read_lhotse({"train": [path]}, lang="ces"))


KALDI = {
    "wav.scp": b"r1 a.wav\nr2 a.wav\n",
    "text": "u1 dobrý den\nu2 ahoj\n".encode(),
    "segments": b"u1 r1 0.0 0.5\nu2 r2 0.25 -1\n",
    "utt2spk": b"u1 s1\nu2 s2\n",
    "utt2lang": b"u1 ces\nu2 slk\n",
}


@given(st.sampled_from(sorted(KALDI)), st.data())
@FUZZ
def test_folders_of_kaldi(folder, name, data):
    kaldi = folder / "kaldi"
    kaldi.mkdir(exist_ok=True)
    write_audio(kaldi / "a.wav", 1.0)
    for other, content in KALDI.items():
        (kaldi / other).write_bytes(data.draw(damaged(content)) if other == name else content)
    prepared(kaldi, read_kaldi({"train": [kaldi]}))


def common_voice(root, content):
    write_audio(root / "cs" / "clips" / "a.wav", 1.0)
    for split in SPLITS:
        (root / "cs" / f"{split}.tsv").write_bytes(content)
    return read_common_voice(root / "cs")


def fleurs(root, content):
    for split in SPLITS:
        write_audio(root / "cs_cz" / "audio" / split / "a.wav", 1.0)
        (root / "cs_cz" / f"{split}.tsv").write_bytes(content)
    return read_fleurs(root / "cs_cz")


def ml_superb(root, content):
    corpus = root / "commonvoice" / "ces"
    write_audio(corpus / "wav" / "a.wav", 1.0)
    for name in ("transcript_1h_train.txt", "transcript_10min_dev.txt", "transcript_10min_test.txt"):
        (corpus / name).write_bytes(content)
    return read_ml_superb(root, [("ces", "commonvoice")])


TABLES = {
    common_voice: b"client_id\tpath\tsentence\nx\ta.wav\tahoj\ny\tb\tdobr den\n",
    fleurs: b"1\ta.wav\tAhoj.\tahoj\ta h o j\t16000\tMALE\n",
    ml_superb: b"a x ahoj\nb\tx\tdobr den\n",
}


@given(st.sampled_from(list(TABLES)), st.data())
@FUZZ
def test_tables_of_corpora(folder, read, data):
    root = folder / read.__name__
    prepared(root, read(root, data.draw(damaged(TABLES[read]))))


PREDICTION = {"id": "a1", "lang": "ces", "text": "dobrý den", "hyp_lang": "slk", "hyp_text": "dobry den"}


@given(
    st.one_of(damaged(as_json(PREDICTION) + b"\n"), altered(PREDICTION).map(as_json)), st.sampled_from(list(PROFILES))
)
@FUZZ
def test_predictions(folder, content, profile):
    path = folder / "predictions.jsonl"
    path.write_bytes(content)
    predictions = is_reported(lambda: read_predictions(path), path)
    if predictions:
        is_reported(lambda: json.dumps(count(predictions, profile).scores().to_record()), "records", path)
        write_predictions(folder / "copy.jsonl", predictions)
        assert read_predictions(folder / "copy.jsonl") == predictions


TRANSCRIPTS = {
    "json": as_json(PREDICTION) + b"\n",
    "kaldi": "a1 [ces] dobrý den\n".encode(),
    "trn": "[ces] dobrý den (a1)\n".encode(),
}


@given(st.sampled_from(sorted(TRANSCRIPTS)), st.data())
@FUZZ
def test_references_and_hypotheses(folder, form, data):
    path = folder / "transcripts"
    path.write_bytes(data.draw(damaged(TRANSCRIPTS[form])))
    references = is_reported(lambda: read_references(path, lang="ces"), path)
    hypotheses = is_reported(lambda: read_hypotheses(path), path)
    if references and hypotheses:
        write_predictions(folder / "copy.jsonl", is_reported(lambda: match(references, hypotheses), path) or [])

"""Small corpora in the layouts of all readers, with real audio files."""

import gzip
import io
import json
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import soundfile

from ctcdro.prepare.readers.common_voice import read_common_voice
from ctcdro.prepare.readers.fleurs import read_fleurs
from ctcdro.prepare.readers.huggingface import Columns, read_huggingface
from ctcdro.prepare.readers.kaldi import read_kaldi
from ctcdro.prepare.readers.lhotse import read_lhotse
from ctcdro.prepare.readers.ml_superb import find_pairs, read_ml_superb
from ctcdro.prepare.readers.nemo import read_nemo

SPLITS = ("train", "dev", "test")
TAGS = {"ces": "cs", "cmn": "zh-CN", "ara": "ar", "hin": "hi", "deu": "de", "tam": "ta"}
FLEURS_FOLDERS = {"ces": "cs_cz", "cmn": "cmn_hans_cn", "ara": "ar_eg", "hin": "hi_in", "deu": "de_de"}
FLEURS_FOLDERS |= {"kor": "ko_kr", "pol": "pl_pl", "ron": "ro_ro", "spa": "es_419"}


@dataclass(frozen=True)
class Spoken:
    """An utterance of a corpus to write."""

    split: str
    lang: str
    id: str
    text: str
    seconds: float = 1.0
    has_audio: bool = True


def tone(seconds, sample_rate=16_000):
    """Samples that are not silent."""
    return 0.3 * np.sin(np.arange(round(seconds * sample_rate)) * 0.05)


def write_audio(path, seconds, sample_rate=16_000):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, tone(seconds, sample_rate), sample_rate)


def write_lines(path, lines, newline="\n", mark=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(line + newline for line in lines)
    content = text.encode("utf-8-sig" if mark else "utf-8")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def grouped(spoken, *names):
    """Utterances of all splits."""
    found = defaultdict(list)
    for one in spoken:
        for split in SPLITS if "split" in names else [None]:
            found[tuple(split if name == "split" else getattr(one, name) for name in names)]
        found[tuple(getattr(one, name) for name in names)].append(one)
    return found.items()


class MLSuperb:
    name = "ml-superb"
    tabs_in_text = True
    spaces_in_ids = False

    def write(self, root, spoken, corpus="commonvoice", **how):
        for (split, lang), several in grouped(spoken, "split", "lang"):
            folder = root / corpus / lang
            name = "transcript_1h_train.txt" if split == "train" else f"transcript_10min_{split}.txt"
            write_lines(folder / name, [f"{one.id}\t{one.seconds} {one.text}" for one in several], **how)
            for one in several:
                if one.has_audio:
                    write_audio(folder / "wav" / f"{one.id}.wav", one.seconds)

    def read(self, root, out):
        return read_ml_superb(root, find_pairs(root))


class CommonVoice:
    name = "common-voice"
    tabs_in_text = False
    spaces_in_ids = True

    def write(self, root, spoken, **how):
        columns = ["client_id", "path", "sentence", "up_votes", "down_votes", "age", "gender", "accents", "locale"]
        for (split, lang), several in grouped(spoken, "split", "lang"):
            folder = root / TAGS[lang]
            rows = [f"speaker\t{one.id}.mp3\t{one.text}\t2\t0\t\t\t\t{TAGS[lang]}" for one in several]
            write_lines(folder / f"{split}.tsv", ["\t".join(columns), *rows], **how)
            for one in several:
                if one.has_audio:
                    write_audio(folder / "clips" / f"{one.id}.mp3", one.seconds, 32_000)

    def read(self, root, out):
        return read_common_voice(root)


class Fleurs:
    name = "fleurs"
    tabs_in_text = False
    spaces_in_ids = True

    def write(self, root, spoken, **how):
        for (split, lang), several in grouped(spoken, "split", "lang"):
            folder = root / FLEURS_FOLDERS[lang]
            rows = [f"7\t{one.id}.wav\t{one.text.upper()}!\t{one.text}\tx\t16000\tMALE" for one in several]
            write_lines(folder / f"{split}.tsv", rows, **how)
            for one in several:
                if one.has_audio:
                    write_audio(folder / "audio" / split / f"{one.id}.wav", one.seconds)

    def read(self, root, out):
        return read_fleurs(root)


class Kaldi:
    name = "kaldi"
    tabs_in_text = True
    spaces_in_ids = False

    def write(self, root, spoken, **how):
        for (split,), several in grouped(spoken, "split"):
            folder = root / split
            write_lines(folder / "wav.scp", [f"{one.id} {root / 'wav' / one.id}.wav" for one in several], **how)
            write_lines(folder / "text", [f"{one.id} {one.text}" for one in several], **how)
            write_lines(folder / "utt2spk", [f"{one.id} speaker" for one in several], **how)
            write_lines(folder / "utt2lang", [f"{one.id} {one.lang}" for one in several], **how)
            for one in several:
                if one.has_audio:
                    write_audio(root / "wav" / f"{one.id}.wav", one.seconds)

    def read(self, root, out):
        return read_kaldi({split: [root / split] for split in SPLITS})


class Nemo:
    name = "nemo"
    tabs_in_text = True
    spaces_in_ids = True

    def write(self, root, spoken, **how):
        for (split,), several in grouped(spoken, "split"):
            records = [
                {
                    "audio_filepath": f"wav/{one.id}.wav",
                    "duration": one.seconds,
                    "text": one.text,
                    "lang": one.lang,
                    "id": one.id,
                    "speaker": "speaker",
                }
                for one in several
            ]
            write_lines(root / f"{split}.json", map(json.dumps, records), **how)
            for one in several:
                if one.has_audio:
                    write_audio(root / "wav" / f"{one.id}.wav", one.seconds)

    def read(self, root, out):
        return read_nemo({split: [root / f"{split}.json"] for split in SPLITS})


def lhotse_recording(path, one):
    return {
        "id": f"rec-{one.id}",
        "sources": [{"type": "file", "channels": [0], "source": str(path)}],
        "sampling_rate": 16_000,
        "num_samples": round(one.seconds * 16_000),
        "duration": one.seconds,
        "channel_ids": [0],
    }


def lhotse_supervision(one):
    return {
        "id": one.id,
        "recording_id": f"rec-{one.id}",
        "start": 0.0,
        "duration": one.seconds,
        "channel": 0,
        "text": one.text,
        "language": one.lang,
        "speaker": "speaker",
    }


class LhotseCuts:
    name = "lhotse-cuts"
    tabs_in_text = True
    spaces_in_ids = True

    def write(self, root, spoken, **how):
        for (split,), several in grouped(spoken, "split"):
            cuts = [
                {
                    "id": f"cut-{one.id}",
                    "start": 0.0,
                    "duration": one.seconds,
                    "channel": 0,
                    "supervisions": [lhotse_supervision(one)],
                    "recording": lhotse_recording(root / "wav" / f"{one.id}.wav", one),
                    "type": "MonoCut",
                }
                for one in several
            ]
            write_lines(root / f"cuts_{split}.jsonl.gz", map(json.dumps, cuts), **how)
            for one in several:
                if one.has_audio:
                    write_audio(root / "wav" / f"{one.id}.wav", one.seconds)

    def read(self, root, out):
        return read_lhotse({split: [root / f"cuts_{split}.jsonl.gz"] for split in SPLITS})


class LhotseRecordings:
    name = "lhotse-recordings"
    tabs_in_text = True
    spaces_in_ids = True

    def write(self, root, spoken, **how):
        for (split,), several in grouped(spoken, "split"):
            recordings = [lhotse_recording(root / "wav" / f"{one.id}.wav", one) for one in several]
            write_lines(root / f"recordings_{split}.jsonl", map(json.dumps, recordings), **how)
            write_lines(root / f"supervisions_{split}.jsonl", map(json.dumps, map(lhotse_supervision, several)), **how)
            for one in several:
                if one.has_audio:
                    write_audio(root / "wav" / f"{one.id}.wav", one.seconds)

    def read(self, root, out):
        kinds = ("supervisions", "recordings")
        return read_lhotse({split: [root / f"{kind}_{split}.jsonl" for kind in kinds] for split in SPLITS})


def audio_bytes(seconds, format="FLAC"):
    file = io.BytesIO()
    soundfile.write(file, tone(seconds), 16_000, format=format)
    return file.getvalue()


class HuggingFace:
    name = "huggingface"
    tabs_in_text = True
    spaces_in_ids = True

    def write(self, root, spoken):
        import datasets

        parts = {}
        for split in [split for split in SPLITS if any(one.split == split for one in spoken)]:
            several = [one for one in spoken if one.split == split]
            columns = {
                "audio": [
                    {"bytes": audio_bytes(one.seconds), "path": f"{one.id}.flac"} if one.has_audio else None
                    for one in several
                ],
                "text": [one.text for one in several],
                "language": [one.lang for one in several],
                "key": [one.id for one in several],
                "reader": ["speaker" for _ in several],
            }
            stored = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
            others = dict.fromkeys(["text", "language", "key", "reader"], datasets.Value("string"))
            # Created from bytes and cast, because encoding audio again would need another package.
            part = datasets.Dataset.from_dict(columns, datasets.Features(audio=stored, **others))
            parts["validation" if split == "dev" else split] = part.cast_column("audio", datasets.Audio())
        datasets.DatasetDict(parts).save_to_disk(str(root))

    def read(self, root, out):
        return read_huggingface(str(root), out, Columns(id="key", speaker="reader"))


LAYOUTS = [MLSuperb(), CommonVoice(), Fleurs(), Kaldi(), Nemo(), LhotseCuts(), LhotseRecordings(), HuggingFace()]

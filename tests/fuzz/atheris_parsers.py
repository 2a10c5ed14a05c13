"""Text parsers on input that atheris grows toward new branches: `make test-fuzz`, or

    python tests/fuzz/atheris_parsers.py -runs=50000

The first byte of an input selects the parser, the rest is the file. The options are those of libFuzzer.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ctcdro"]):
    from ctcdro.prepare.readers.kaldi import read_kaldi
    from ctcdro.prepare.readers.lhotse import read_lhotse
    from ctcdro.prepare.readers.nemo import read_nemo
    from ctcdro.prepare.tsv import read_table
    from ctcdro.runs.config import read_config
    from ctcdro.scoring.transcripts import read_hypotheses, read_predictions, read_references
    from ctcdro.speech.audio import header
    from ctcdro.speech.manifest import Manifest
    from ctcdro.speech.normalization import clean, paper
    from ctcdro.speech.vocabulary import Vocabulary
    from ctcdro.storage.json_files import read_json, scan_json_lines
    from ctcdro.storage.lines import numbered_lines
    from ctcdro.sweeps.config import read_sweep

from hostile import is_reported


def kaldi(path):
    return [list(read_kaldi({"train": [path.parent]}, lang="ces"))]


UTTERANCE = b'{"audio_filepath": "a.wav", "duration": 1.5, "text": "ahoj", "lang": "ces", "id": "a", "offset": 0.5}\n'
CUT = (
    b'{"id": "c", "start": 0.1, "recording": {"id": "r", "sources": [{"type": "file", "channels": [0], '
    b'"source": "a.wav"}]}, "supervisions": [{"id": "s", "recording_id": "r", "start": 0, "duration": 1, '
    b'"text": "a", "language": "ces"}]}\n'
)
PREDICTION = b'{"id": "a", "lang": "ces", "text": "ahoj", "hyp_lang": null, "hyp_text": "ahoi"}\n'

# The file that each parser reads, the parser, and valid content to start from.
PARSERS = [
    ("a.jsonl", Manifest.read, UTTERANCE),
    ("a.jsonl", lambda path: list(scan_json_lines(path)), UTTERANCE),
    ("a.jsonl", lambda path: list(read_nemo({"train": [path]})), UTTERANCE),
    ("a.jsonl", lambda path: list(read_lhotse({"train": [path]})), CUT),
    ("wav.scp", kaldi, b"u1 a.wav\n"),
    ("text", kaldi, b"u1 ahoj\nu2 dobry den\n"),
    ("segments", kaldi, b"u1 u1 0.5 1.5\n"),
    ("utt2lang", kaldi, b"u1 ces\n"),
    ("a.tsv", lambda path: list(read_table(path, "train", "ces")), b"path\tsentence\na.mp3\tahoj\n"),
    ("a.yaml", read_config, b"dataset: set1\nmodel: {encoder: mel-small}\noptimizer: {betas: [0.9, 0.98]}\n"),
    (
        "b.yaml",
        read_sweep,
        b"run: {dataset: set1}\nseeds: [0, 1]\noverrides: {erm: {sampling.sampler: group-uniform}}\n",
    ),
    ("a.jsonl", read_predictions, PREDICTION),
    ("a.trn", read_references, b"[ces] ahoj (a)\n"),
    ("a.txt", read_hypotheses, b"a [ces] ahoj\n"),
    ("vocab.json", Vocabulary.load, b'{"<pad>": 0, "<unk>": 1, "|": 2, "[ces]": 3, "a": 4}'),
    ("run.json", read_json, b'{"seconds": 1.5, "steps": 3}'),
    ("a.wav", header, b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80>\0\0\0}\0\0\2\0\x10\0data\0\0\0\0"),
    ("a.txt", lambda path: [(clean(line), paper(line)) for _, line in numbered_lines(path)], b"[a] (b) c\n"),
]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds = folder / "seeds"
        seeds.mkdir()
        for number, (_, _, content) in enumerate(PARSERS):
            (seeds / str(number)).write_bytes(bytes([number]) + content)

        def try_one(data):
            if not data:
                return
            file, parser, _ = PARSERS[data[0] % len(PARSERS)]
            own = folder / str(data[0] % len(PARSERS))
            own.mkdir(exist_ok=True)
            if parser is kaldi:
                for other, content in (("wav.scp", b"u1 a.wav\n"), ("text", b"u1 ahoj\n")):
                    (own / other).write_bytes(content)
            (own / file).write_bytes(data[1:])
            is_reported(lambda: parser(own / file), own)

        atheris.Setup(
            [sys.argv[0], "-max_len=600", "-timeout=20", "-rss_limit_mb=4000", *sys.argv[1:], str(seeds)], try_one
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()

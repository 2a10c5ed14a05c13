"""The commands of README, how-to guides and integration pages run, on small stand-ins for the data they name.

The code of the how-to guides runs too. Tutorials are tested in test_tutorials.py, and the code on integration pages in
tests/integrations.
"""

import itertools
import json
import shutil
from pathlib import Path

import fairseq2_models
import in_process
import pytest
import soundfile
import torch
import yaml
from layouts import SPLITS, CommonVoice, Fleurs, HuggingFace, Kaldi, LhotseCuts, MLSuperb, Nemo, Spoken, tone
from page_commands import DOCS, SMALL, lines, run, run_ctcdro, steps
from page_loop import loop_parts
from run_folders import write_run

import ctcdro

ROOT = DOCS.parent
PAGES = [ROOT / "README.md", DOCS / "install.md"]
PAGES += sorted(page for folder in ("how-to", "integrations") for page in (DOCS / folder).glob("*.md"))

# What is written on pages, and what is run instead.
SUBSTITUTIONS = {
    "/data/": "corpora/",
    "--minutes 30:5:10": "--minutes 0.2:0.1:0.1",
    "--nproc-per-node 4": "--nproc-per-node 2",
    "--num_processes 4": "--num_processes 2",
    "google/fleurs --config cs_cz --text-column transcription": "corpora/hub --text-column text",
    "seeds=[0, 1, 2, 3]": "seeds=[0, 1]",
    " --set model.freeze_encoder=true": "",  # mel-small cannot be frozen
    "facebook/wav2vec2-xls-r-300m": "tiny-encoder",
    "facebook/mms-1b-all": "mms",
    'recognize("a.wav")': 'recognize(__import__("soundfile").read("a.wav")[0])',  # paths need ffmpeg
    "python examples/": f"python {ROOT}/examples/",
    '"corpus", DEMO_SPECS': '"corpus", {"ces": SpeechSpec(train_minutes=0.1, dev_minutes=0, test_minutes=0)}',
    "--minutes 10:2:5 --minutes cmn+eng=3:1:2": "--minutes 0.2:0.1:0.1 --minutes cmn+eng=0.1:0.1:0.1",
    '{"cmn": SpeechSpec(), "eng": SpeechSpec()}': 'dict.fromkeys(["cmn", "eng"], SpeechSpec(train_minutes=0.1, '
    "dev_minutes=0, test_minutes=0))",
    "noisy = SpeechSpec(": "noisy = SpeechSpec(train_minutes=0.1, dev_minutes=0, test_minutes=0, ",
}

# Commands that are only compared with the options of the program, in test_docs.py.
NOT_RUN = {
    "pip install": "`make test-package` installs the package with every extra",
    "make install": "downloads PyTorch",
    "source .venv/bin/activate": "belongs to `make install`",
    "--from-hub": "needs the Hugging Face Hub",
    "--cluster slurm": "needs a Slurm cluster",
    "apt-get": "installs Slurm",
    "make test-slurm": "starts a Slurm cluster",
    "sbatch --nodes": "needs a Slurm cluster; tests/slurm submits the file",
    "--nnodes": "needs two nodes; tests/faults/test_nodes.py has two on one machine",
    "grep -l ://": "finds nothing, with exit status 1",
    "lmplz": "needs KenLM",
    "hf auth login": "needs the Hugging Face Hub",
    "hf upload": "needs the Hugging Face Hub",
    "--device cuda": "needs a GPU",
    "benchmarks/gpu.py": "needs a GPU; tests/benchmarks/test_gpu.py runs it without",
    "ctcdro serve": "runs until it is stopped; tests/serve starts the page",
}
if not shutil.which("jq"):
    NOT_RUN["jq"] = "not installed"


def substituted(text):
    for written, replacement in SUBSTITUTIONS.items():
        text = text.replace(written, replacement)
    return text


def is_run(line):
    return not any(part in line for part in NOT_RUN)


def test_all_substitutions_and_exceptions_are_used():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [part for part in (*SUBSTITUTIONS, *NOT_RUN) if part not in text] == []


# Stand-ins, created in the working directory.


@pytest.fixture(scope="module")
def made(tmp_path_factory, one_thread):
    """A folder with a dataset and a run on it."""
    import tiny_encoders

    folder = tmp_path_factory.mktemp("made")
    options = ["--languages", "ces,cmn,kor", "--duration", "1.5:0.3", "--out", str(folder / "data")]
    run_ctcdro(["prepare", "synthetic", *options])
    tiny_encoders.write("wav2vec2", folder / "tiny-encoder")
    for encoder in ("mel-small", "tiny-encoder"):
        (folder / "run.yaml").write_text(yaml.safe_dump({"dataset": "data"}))
        values = {**SMALL, "model.encoder": encoder if encoder == "mel-small" else folder / encoder}
        options = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
        done = in_process.run("train", folder / "run.yaml", "--out", folder / "runs" / encoder, *options)
        assert done.returncode == 0, done.stderr
    return folder


def dataset(made):
    shutil.copytree(made / "data", "data")


def dataset_to_join(made):
    shutil.copytree(made / "data", "data/fleurs")


def code_switching(made):
    Path("data").mkdir()
    ctcdro.Manifest([ctcdro.Utterance("a.wav", 2.0, "我想 go", "cmn")]).write("data/train.jsonl")


def datasets_to_combine(made):
    for name in ("data", "data/old", "data/new"):
        shutil.copytree(made / "data", name, dirs_exist_ok=True)


def trained_run(made, encoder="mel-small"):
    shutil.copytree(made / "runs" / encoder, "runs/first")


def runs_to_compare(made):
    for name in ("erm", "ctc-dro"):
        shutil.copytree(made / "runs/mel-small", f"runs/{name}")


def exportable_run(made):
    trained_run(made, "tiny-encoder")


def encoder(made):
    shutil.copytree(made / "tiny-encoder", "tiny-encoder")


def configurations(made):
    Path("run.yaml").write_text("dataset: data\n")


def recordings(made):
    soundfile.write("a.wav", tone(2), 16_000)
    soundfile.write("b.mp3", tone(2, 44_100), 44_100)


def talks(made):
    recordings(made)
    for name in ("interview.mp3", "talks/one.mp3"):
        Path(name).parent.mkdir(exist_ok=True)
        shutil.copy("b.mp3", name)
    Path("paths.txt").write_text("a.wav\nb.mp3\n")


def transcripts(made):
    shutil.copy(made / "data/test.jsonl", "test.jsonl")
    references = [json.loads(line) for line in Path("test.jsonl").read_text(encoding="utf-8").splitlines()]
    trn = "".join(f"[{one['lang']}] {one['text'][1:]} ({one['id']})\n" for one in references)
    for name in ("hypotheses", "baseline", "ours"):
        Path(f"{name}.trn").write_text(trn, encoding="utf-8")
        Path(f"{name}.jsonl").write_text(Path("test.jsonl").read_text(encoding="utf-8"), encoding="utf-8")


def scored_runs(made):
    write_run(Path("runs/a"), made / "data", "erm")
    write_run(Path("runs/b"), made / "data", "ctc-dro")
    write_run(Path("runs/sweep/runs/erm-seed0"), made / "data", "erm")


def language_models(made):
    """Bigram models in which all labels are equally likely, as KenLM writes them."""
    labels = json.loads((made / "runs/mel-small/vocab.json").read_text(encoding="utf-8")).keys() - {"<pad>", "<unk>"}
    unigrams = ["-9\t<unk>\t0", *(f"-1\t{symbol}\t0" for symbol in ("<s>", "</s>", *sorted(labels)))]
    sections = ["\\data\\", f"ngram 1={len(unigrams)}", "ngram 2=1", "", "\\1-grams:", *unigrams, ""]
    sections += ["\\2-grams:", "-1\t<s> </s>", "", "\\end\\", ""]
    for name in ("lm", "ces", "kor"):
        Path(f"{name}.arpa").write_text("\n".join(sections), encoding="utf-8")


def corpora(made):
    languages = {"ces": "dobrý den", "cmn": "你好", "nan": "lí hó", "pol": "dzień dobry", "ron": "bună", "spa": "hola"}
    languages |= {"tam": "வணக்கம்"}
    spoken = {lang: [] for lang in languages}
    for split, number, (lang, text) in itertools.product(SPLITS, (0, 1), languages.items()):
        spoken[lang].append(Spoken(split, lang, f"{lang}-{split}-{number}", f"{text} {number}", 1 + number / 10))
    root, two = Path("corpora").absolute(), [*spoken["ces"], *spoken["cmn"]]
    CommonVoice().write(root / "cv-corpus-17.0-2024-03-15", [*two, *spoken["tam"]])
    Fleurs().write(root / "fleurs", two)
    sets = {"ces": "commonvoice", "cmn": "fleurs", "nan": "commonvoice", "pol": "M-AILABS", "ron": "fleurs"}
    for lang, corpus in (sets | {"spa": "voxforge"}).items():
        MLSuperb().write(root / "ml_superb", spoken[lang], corpus)
    Kaldi().write(Path("data").absolute(), two)
    Kaldi().write(Path("dump/raw").absolute(), two)
    Path("dump/raw/train/utt2lang").rename("dump/raw/train/utt2category")
    HuggingFace().write(root / "hub", spoken["ces"])
    Nemo().write(Path(), two)
    LhotseCuts().write(Path().absolute(), two)


def omniasr(made):
    """A random model in the format of omniASR, with its tokenizer."""
    torch.save(fairseq2_models.random_weights(), "omniASR-CTC-300M-v2.pt")
    fairseq2_models.write_tokenizer(Path("omniASR_tokenizer_written_v2.model"))


def mms(made):
    """A random model like MMS, with adapters for two languages."""
    import tiny_encoders

    tiny_encoders.write_with_adapters("mms", {"eng": "abc", "ces": "abcč"})


NEEDS = {
    "README.md": [corpora],
    "check-a-dataset.md": [dataset],
    "choose-an-objective.md": [dataset],
    "choose-groups.md": [dataset],
    "evaluate-and-score.md": [dataset, trained_run, recordings, transcripts],
    "export-a-model.md": [dataset, exportable_run, recordings],
    "find-groups.md": [dataset, trained_run],
    "first-run-on-a-gpu.md": [dataset, configurations],
    "migrate-from-the-authors-code.md": [corpora],
    "prepare-data.md": [corpora],
    "read-the-report.md": [scored_runs],
    "resume.md": [dataset, configurations],
    "start-from-a-model.md": [datasets_to_combine, trained_run, configurations, mms, omniasr],
    "train.md": [dataset],
    "train-from-shards.md": [dataset, configurations],
    "transcribe-recordings.md": [dataset, dataset_to_join, trained_run, talks],
    "troubleshoot.md": [dataset],
    "try-a-model.md": [dataset, runs_to_compare],
    "tune-with-a-sweep.md": [dataset],
    "use-beam-search.md": [dataset, trained_run, recordings, language_models],
    "use-mixed-groups.md": [code_switching],
    "use-several-gpus.md": [dataset, configurations],
    "use-your-own-loop.md": [dataset, encoder, transcripts],
    "espnet.md": [corpora],
}


# Modules of extras that `make install` does not install everywhere.
EXTRAS = {"use-beam-search.md": "flashlight.lib.text.decoder", "train-from-shards.md": "lhotse"}


# Names that code uses but does not define.


def names_of_loop():
    return {**loop_parts(), "objective": ctcdro.ctc_dro(num_groups=3, step_size=1e-4, smoothing=0.1)}


class AnyModel(torch.nn.Module):
    """Takes audio and lengths; returns random logits, and numbers of frames."""

    def forward(self, inputs, lengths):
        return torch.randn(len(inputs), inputs.shape[1] // 320, 100, requires_grad=True), lengths // 320


# Changes before a block of code, by its first line.
CHANGED_NAMES = {
    "from ctcdro import CTCDROLoss": {"model": AnyModel()},
    "from ctcdro.decoding.transcribe import": {"samples": [0.0] * 48_000},
    "objective = ctcdro.ctc_dro(": {"losses": torch.ones(2), "groups": torch.tensor([0, 1])},
}


def has_steps(page):
    runs = {"", "python"} if page.parent.name == "how-to" else {""}
    return any(language in runs for language, _ in steps(page))


@pytest.mark.slow
@pytest.mark.parametrize("page", list(filter(has_steps, PAGES)), ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_the_commands_of_the_page_run(page, made, tmp_path, monkeypatch):
    if page.name in EXTRAS:
        pytest.importorskip(EXTRAS[page.name])
    monkeypatch.chdir(tmp_path)
    for stand_in in NEEDS.get(page.name, []):
        stand_in(made)
    names = names_of_loop() if page.name == "use-your-own-loop.md" else {}
    for language, code in steps(page):
        code = substituted(code)
        if language == "":
            for line in filter(is_run, lines(code)):
                run(line)
        elif language == "yaml" and code.startswith("# "):
            Path(code.split()[1]).write_text(code, encoding="utf-8")
        elif language == "python" and page.parent.name == "how-to" and page.name != "extend.md":
            for start, changed in CHANGED_NAMES.items():
                names |= changed if code.startswith(start) else {}
            exec(code, names)

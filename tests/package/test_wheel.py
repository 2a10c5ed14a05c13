"""The built package: its content, and that each extra suffices for what it promises, outside the source tree.

Versions are the pinned ones, on the Python and the build of torch of this machine; other versions are not tested.
"""

import shutil
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from environments import ROOT, TOOLKITS
from tones import write_dataset

pytestmark = pytest.mark.package

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def dataset(workspace):
    return write_dataset(workspace / "dataset", num_train=6, num_dev=2)


@pytest.fixture
def examples(tmp_path):
    """A copy of the examples, far from the source tree."""
    return Path(shutil.copytree(ROOT / "examples", tmp_path / "examples"))


def call_main(script, arguments):
    """A program that calls `main` of a script."""
    return f"import runpy; print(runpy.run_path({str(script)!r})['main']({arguments}))"


# Content


def test_the_wheel_has_all_tracked_files_of_the_package_and_nothing_else(wheel, tracked):
    names = zipfile.ZipFile(wheel).namelist()
    about = {name for name in names if ".dist-info/" in name}
    expected = {path.relative_to("src").as_posix() for path in tracked if path.parts[0] == "src"}
    assert set(names) - about == expected
    assert {"ctcdro/py.typed", "ctcdro/recipes/mel-small.yaml", "ctcdro/recipes/paper/set1.yaml"} <= expected
    assert {name.partition(".dist-info/")[2] for name in about} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"),
    }


def test_the_source_distribution_has_what_the_wheel_is_built_from(distributions, tracked):
    with tarfile.open(distributions[1]) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    made = {name for name in names if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    source = {path.as_posix() for path in tracked if path.parts[0] == "src"}
    assert names - made == source | {"LICENSE", "README.md", "pyproject.toml"}


def test_building_warns_of_nothing(distributions):
    expected = "byte-compiling is disabled"  # where PYTHONDONTWRITEBYTECODE is set
    lines = [line for line in distributions[2].splitlines() if "warning" in line.lower() and expected not in line]
    assert [line for line in lines if not line.startswith("WARNING: ")] == []  # those of pip


# What is installed without extras


def test_all_public_names_and_the_loop_of_the_readme_need_torch_and_numpy_only(environment_with, tmp_path):
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copy(ROOT / "tests" / "helpers" / "page_loop.py", tmp_path)
    program = "import ctcdro, pathlib, page_loop; [getattr(ctcdro, name) for name in ctcdro.__all__]; "
    program += "page_loop.run_first_loop(pathlib.Path('README.md'))"
    assert environment_with("").run("python", "-c", program, cwd=tmp_path).count("'ces': 0.") == 2


def test_the_command_names_the_extra_that_it_needs(environment_with, tmp_path):
    assert "pip install 'ctcdro[data]'" in environment_with("").run("ctcdro", "--help", cwd=tmp_path, status=2)


# The extras


def test_data(environment_with, dataset, tmp_path):
    environment = environment_with("data")
    assert "ctcdro 0.1.0" in environment.run("ctcdro", "--version", cwd=tmp_path)
    assert "mel-small" in environment.run("ctcdro", "recipes", "list", cwd=tmp_path)
    assert "aaa" in environment.run("ctcdro", "check", dataset, "--json", cwd=tmp_path)
    assert installed_extras(environment, tmp_path) == {"data"}


def installed_extras(environment, folder):
    """Those that `ctcdro env` lists."""
    [line] = [line for line in environment.run("ctcdro", "env", cwd=folder).splitlines() if "Installed extras" in line]
    return set(line.removeprefix("Installed extras").strip().split(", "))


@pytest.fixture(scope="module")
def run(environment_with, dataset, workspace):
    """A run folder, trained and scored with the extra `train`."""
    environment = environment_with("train")
    environment.run("ctcdro", "recipes", "copy", "mel-small", cwd=workspace)
    values = {"dataset": dataset, "training.num_batches": 4, "training.validate_every_batches": 2}
    settings = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    environment.run("ctcdro", "train", "mel-small.yaml", "--out", "run", *settings, cwd=workspace)
    assert "mean" in environment.run("ctcdro", "evaluate", "run", cwd=workspace)
    return workspace / "run"


def test_train(environment_with, run, dataset, tmp_path):
    environment = environment_with("train")
    audio = next(dataset.glob("*.wav"))
    assert str(audio) in environment.run("ctcdro", "transcribe", run, audio, cwd=tmp_path)


def test_sweep(environment_with, dataset, tmp_path):
    (tmp_path / "sweep.yaml").write_text(
        f"""
        run:
          dataset: {dataset}
          model: {{encoder: mel-small, head: linear}}
          optimizer: {{batches_per_step: 1}}
          training: {{num_batches: 2, validate_every_batches: 2}}
        settings: [{{objective: erm}}]
        """
    )
    environment = environment_with("sweep")
    assert "Baseline (ERM)" in environment.run("ctcdro", "sweep", "sweep.yaml", "--out", "sweep", cwd=tmp_path)


def test_report(environment_with, run, dataset, tmp_path):
    environment = environment_with("report")
    environment.run("ctcdro", "report", run, "--out", "page.html", cwd=tmp_path)
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")
    environment.run("ctcdro", "check", dataset, "--figure", "durations.png", cwd=tmp_path)
    assert (tmp_path / "durations.png").stat().st_size > 1000


def test_serve(environment_with, run, tmp_path):
    program = f"""
import socket, urllib.request
from ctcdro.serve.page import serve
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
with serve([{str(run)!r}], port=port) as address:
    print(urllib.request.urlopen(address).status)
"""
    assert "200" in environment_with("serve").run("python", "-c", program, cwd=tmp_path)


def test_groups(environment_with, dataset, tmp_path):
    environment = environment_with("groups")
    options = ("--encoder", "mel-small", "--num-groups", 2, "--out", "grouped")
    environment.run("ctcdro", "groups", dataset, *options, cwd=tmp_path)
    assert '"group"' in (tmp_path / "grouped" / "train.jsonl").read_text(encoding="utf-8")


def test_media(environment_with, tmp_path):
    program = """
import av, numpy
from ctcdro.speech.audio_blocks import read_blocks
with av.open("a.m4a", "w") as container:
    stream = container.add_stream("aac", rate=16_000, layout="mono")
    tone = numpy.sin(numpy.arange(16_000) / 10, dtype=numpy.float32)[None]
    frame = av.AudioFrame.from_ndarray(tone, format="fltp", layout="mono")
    frame.sample_rate = 16_000
    container.mux(stream.encode(frame) + stream.encode(None))
print(sum(map(len, read_blocks("a.m4a"))) // 10_000)
"""
    assert environment_with("media").run("python", "-c", program, cwd=tmp_path).strip() == "1"


def test_demo(environment_with, tmp_path):
    options = ("--minutes", "0.15:0.03:0.03", "--steps", "4")
    assert "CTC-DRO" in environment_with("demo").run("ctcdro", "demo", *options, cwd=tmp_path)
    assert (tmp_path / "ctcdro-demo" / "report.html").exists()


def test_huggingface(environment_with, dataset, tmp_path):
    program = f"""
import json, pathlib, datasets
folder = pathlib.Path({str(dataset)!r})
lines = map(json.loads, (folder / "train.jsonl").read_text().splitlines())
rows = [{{"audio": str(folder / line["audio_filepath"]), "text": line["text"], "language": "ces"}} for line in lines]
made = datasets.Dataset.from_list(rows).cast_column("audio", datasets.Audio(decode=False))
datasets.DatasetDict(train=made).save_to_disk("hub")
"""
    environment = environment_with("huggingface")
    environment.run("python", "-c", program, cwd=tmp_path)
    environment.run("ctcdro", "prepare", "huggingface", "hub", "--out", "data", cwd=tmp_path)
    assert (tmp_path / "data" / "train.jsonl").read_text(encoding="utf-8").count("\n") == 12


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="flashlight-text has no wheels for Python 3.13")
def test_beam(environment_with, run, tmp_path):
    assert "mean" in environment_with("beam").run("ctcdro", "evaluate", run, "--beam-size", 4, cwd=tmp_path)


def test_onnx(environment_with, run, examples, dataset, tmp_path):
    environment = environment_with("onnx")
    environment.run("ctcdro", "export", run, "--format", "onnx", "--int8", "--out", "exported", cwd=tmp_path)
    audio = next(dataset.glob("*.wav"))
    for name in ("model.onnx", "model.int8.onnx"):
        program = ("python", examples / "onnx_recognizer.py", f"exported/{name}", audio)
        assert str(audio) in environment.run(*program, cwd=tmp_path)


def test_hf_trainer(environment_with, examples, tmp_path):
    program = call_main(examples / "hf_trainer_ctc.py", "'out', 1")
    assert "RobustTrainer" in environment_with("hf-trainer").run("python", "-c", program, cwd=tmp_path)


def test_lhotse(environment_with, examples, tmp_path):
    program = call_main(examples / "lhotse_ctc.py", 1)
    assert "tensor(" in environment_with("lhotse").run("python", "-c", program, cwd=tmp_path)


def test_lightning(environment_with, examples, tmp_path):
    program = call_main(examples / "lightning_ctc.py", "'out', 1")
    assert "Trainer" in environment_with("lightning").run("python", "-c", program, cwd=tmp_path)


def drop_extension_of_torchaudio(environment):
    """Removes what does not load with a CPU build of torch; the Python part of torchaudio loads without it."""
    for extension in environment.packages.glob("torchaudio/lib/_torchaudio*.so"):
        extension.unlink()


def test_speechbrain(environment_with, examples, tmp_path):
    environment = environment_with("speechbrain")
    drop_extension_of_torchaudio(environment)
    program = call_main(examples / "speechbrain_ctc.py", "'out', 1")
    assert "{" in environment.run("python", "-c", program, cwd=tmp_path)


def test_espnet(environment_with, tmp_path):
    environment = environment_with("espnet")
    importing = ("python", "-c", "import ctcdro.integrations.espnet")
    assert "pip install espnet" in environment.run(*importing, cwd=tmp_path, status=1)
    environment.install("--requirement", TOOLKITS / "espnet.txt")
    environment.install("--no-deps", "--requirement", TOOLKITS / "espnet-alone.txt")
    drop_extension_of_torchaudio(environment)
    assert "--batch_duration" in environment.run("python", "-m", "ctcdro.integrations.espnet", "--help", cwd=tmp_path)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="flashlight-text has no wheels for Python 3.13")
def test_all(environment_with, run, tmp_path):
    environment = environment_with("all")
    toolkits = "import ctcdro.integrations." + ", ctcdro.integrations.".join(("hf_trainer", "lhotse", "lightning"))
    environment.run("python", "-c", toolkits, cwd=tmp_path)
    environment.run("ctcdro", "report", run, "--out", "page.html", cwd=tmp_path)
    missing = PROJECT["optional-dependencies"].keys() - installed_extras(environment, tmp_path)
    assert missing == {"dev", "docs", "espnet", "speechbrain"}


def test_every_extra_is_tested():
    tested = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    assert PROJECT["optional-dependencies"].keys() - tested == {"dev", "docs"}

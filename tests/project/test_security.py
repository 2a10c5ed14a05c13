"""The package does not run or unpickle what it reads, and does not use the network unless asked to."""

import ast
import re
import socket
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from tones import write_dataset

import ctcdro
from ctcdro.cli.main import main

PACKAGE = Path(ctcdro.__file__).parent
MODULES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

# Modules that execute their input, or create objects from it.
MODULES_NOT_USED = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "tarfile", "zipfile"}
CALLS_NOT_USED = {
    *("eval", "exec", "compile", "__import__"),
    *("os.system", "os.popen", "yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"),
    *("torch.save", "torch.hub.load", "shutil.unpack_archive", "pickle.load", "pickle.loads"),
}
METHODS_NOT_USED = {"extractall"}
# Loaders that are safe with an argument, which must be written out, and values of arguments that are not used.
ARGUMENTS_REQUIRED = {"np.load": ("allow_pickle", False), "torch.load": ("weights_only", True)}
ARGUMENTS_NOT_USED = {("shell", True), ("allow_pickle", True), ("trust_remote_code", True), ("weights_only", False)}


def name_of(node):
    """The dotted name of an expression, such as `os.path.join`."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def dangers(path):
    """Uses of the above in a file, by line. `yaml.load` is allowed with a subclass of the safe loader."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    safe_loaders = {node.name for node in classes if [name_of(base) for base in node.bases] == ["yaml.SafeLoader"]}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (f"{node.lineno}: import {one}" for one in modules if one.split(".")[0] in MODULES_NOT_USED)
        if not isinstance(node, ast.Call):
            continue
        name = name_of(node.func)
        if name == "yaml.load" and [name_of(argument) in safe_loaders for argument in node.args[1:]] == [True]:
            continue
        if name in CALLS_NOT_USED or name.rpartition(".")[2] in METHODS_NOT_USED:
            yield f"{node.lineno}: {name}"
        for keyword in node.keywords:
            if isinstance(keyword.value, ast.Constant) and (keyword.arg, keyword.value.value) in ARGUMENTS_NOT_USED:
                yield f"{node.lineno}: {name}({keyword.arg}={keyword.value.value})"
        given = {(one.arg, one.value.value) for one in node.keywords if isinstance(one.value, ast.Constant)}
        for loader, (argument, value) in ARGUMENTS_REQUIRED.items():
            if name.endswith(loader) and (argument, value) not in given:
                yield f"{node.lineno}: {name} without {argument}={value}"


def test_nothing_that_is_read_is_run_or_unpickled():
    """submitit has its own pickles for the jobs of a sweep; no import of ours shows that."""
    assert [f"{name}:{danger}" for name, path in MODULES.items() for danger in dangers(path)] == []


def test_the_scan_finds_every_danger(tmp_path):
    lines = [
        *("import pickle", "from pickle import loads", "eval('1')", "os.system('ls')", "yaml.load(text, Loader)"),
        *("torch.load('a')", "subprocess.run('ls', shell=True)", "archive.extractall()", "np.load('a')"),
        *("AutoModel.from_pretrained(name, trust_remote_code=True)", "np.load('a', allow_pickle=True)"),
        *("torch.load('a', weights_only=False)", "torch.load('a', weights_only=one)", "np.load('a', allow_pickle=one)"),
    ]
    (tmp_path / "a.py").write_text("\n".join(lines))
    assert {int(danger.split(":")[0]) for danger in dangers(tmp_path / "a.py")} == set(range(1, len(lines) + 1))


def test_every_yaml_loader_is_the_safe_one():
    """Or a subclass of it."""
    users = [path for path in MODULES.values() if "yaml" in path.read_text(encoding="utf-8").split("import", 1)[-1]]
    loaders = {
        name_of(node)
        for path in users
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr.endswith("Loader") and name_of(node).startswith("yaml.")
    }
    assert loaders == {"yaml.SafeLoader"}


class Asked(BaseException):
    """Raised when the network is used; nothing catches it and retries."""


@pytest.fixture
def no_network(monkeypatch):
    """Records and refuses every attempt to find or reach another machine."""
    attempts = []

    def refuse(*arguments, **_):
        attempts.append(arguments)
        raise Asked(arguments)

    real = socket.socket.connect

    def connect(self, address):
        return real(self, address) if self.family == socket.AF_UNIX else refuse(address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "gethostbyname", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    return attempts


def command(monkeypatch, *arguments):
    """Runs a command in this process, and returns its exit status."""
    monkeypatch.setattr(sys, "argv", ["ctcdro", *map(str, arguments)])
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0


@pytest.mark.parametrize("encoder", ["mel-small", "wav2vec2"])
def test_no_command_asks_for_the_network_unless_a_name_on_the_hub_is_given(
    tmp_path, monkeypatch, no_network, one_thread, folders, encoder
):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    corpus = write_dataset(tmp_path / "corpus", num_train=4, num_dev=2)
    lists = [part for split in ("train", "dev", "test") for part in (f"--{split}", corpus / f"{split}.jsonl")]
    dataset, run = tmp_path / "data", tmp_path / "run"
    assert command(monkeypatch, "prepare", "nemo", *lists, "--text-norm", "none", "--out", dataset) == 0
    assert command(monkeypatch, "check", dataset) == 0
    values = {
        "dataset": str(dataset),
        "model": {"encoder": folders.get(encoder, encoder), "head": "linear"},
        "data": {"num_workers": 0},
        "sampling": {"batch_duration": 3.0},
        "optimizer": {"batches_per_step": 1},
        "training": {"num_batches": 1, "validate_every_batches": 1},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    assert command(monkeypatch, "train", tmp_path / "run.yaml", "--out", run) == 0
    assert command(monkeypatch, "evaluate", run) == 0
    assert command(monkeypatch, "transcribe", run, corpus / "aaa-test-0.wav") == 0
    assert command(monkeypatch, "report", run, "--out", tmp_path / "page.html") == 0
    assert command(monkeypatch, "score", dataset / "test.jsonl", run / "predictions" / "test.jsonl") == 0
    assert no_network == []


def test_a_name_on_the_hub_is_asked_for(tmp_path, monkeypatch, no_network, one_thread):
    """Shows that the test above can fail."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    dataset = write_dataset(tmp_path / "data", num_train=2, num_dev=2)
    values = {"dataset": str(dataset), "model": {"encoder": "nobody-has/this-encoder"}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(Asked):
        command(monkeypatch, "train", tmp_path / "run.yaml", "--out", tmp_path / "run")
    assert no_network


def test_the_licenses_of_all_runtime_dependencies_are_listed_with_their_extras():
    root = PACKAGE.parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    needed = {(re.match(r"[\w.-]+", one)[0], name) for name in extras.keys() - {"dev", "docs"} for one in extras[name]}
    rows = re.findall(
        r"^\| ([\w.-]+) \| >= .*? \| (.*?) ?\|", (root / "docs/project/licenses.md").read_text(), re.MULTILINE
    )
    listed = {(package, name) for package, names in rows for name in names.split(", ")}
    assert listed == {(package, name) for package, name in needed if package != "ctcdro"}

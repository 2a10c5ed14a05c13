"""Runs the commands on pages of the documentation, with smaller models and less data."""

import glob
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import in_process
import yaml

DOCS = Path(__file__).parents[2] / "docs"

# Blocks of code, and commands with options in sentences and tables.
STEP = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$|`(ctcdro [^`\n]*?--[\w-]+ [^`\n]+)`", flags=re.DOTALL | re.MULTILINE)

SMALL = {
    "model.encoder": "mel-small",
    "model.head": "linear",
    "training.precision": "fp32",
    "sampling.batch_duration": 4,
    "optimizer.batches_per_step": 2,
    "data.num_workers": 0,
    "training.num_batches": 4,
    "training.validate_every_batches": 2,
}

# Options that are added to commands.
ADDED = {
    "train": [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")],
    "sweep": [word for key, value in SMALL.items() for word in ("--set", f"run.{key}={value}")]
    + ["--cpu", "--jobs", "2", "--threads", "1"],
    "demo": ["--minutes", "0.2:0.1:0.1", "--steps", "4"],
    "prepare synthetic": ["--minutes", "0.2:0.1:0.1"],
}


def steps(page):
    """The blocks of code on a page in their order, with their languages; those in no language are commands."""
    for _, language, code, in_sentence in STEP.findall(page.read_text(encoding="utf-8")):
        yield ("", in_sentence) if in_sentence else (language, textwrap.dedent(code))


def lines(code):
    """The commands in a block, where a backslash continues a line."""
    return [line for line in code.replace("\\\n", " ").splitlines() if shlex.split(line, comments=True)]


def run(line):
    """Runs a command as in a shell, with the options of `ADDED`; returns its output."""
    words = shlex.split(line, comments=True)
    if words[0] == "ctcdro":
        return run_ctcdro(words[1:])
    more = shlex.join(ADDED["train"]) if " ctcdro train " in line else ""
    found = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    done = subprocess.run(f"{line} {more}", shell=True, env=found, capture_output=True, text=True)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def fewer_runs(path):
    """Options that replace lists of smoothings in a sweep by one value."""
    settings = yaml.safe_load(path.read_text(encoding="utf-8")).get("settings") or []
    grids = [number for number, setting in enumerate(settings) if isinstance(setting.get("smoothing"), list)]
    return [word for number in grids for word in ("--set", f"settings.{number}.smoothing=0.5")]


def run_ctcdro(words):
    words = [file for word in words for file in (sorted(glob.glob(word)) if "*" in word else [word])]
    options = [option for name, some in ADDED.items() if words[: len(name.split())] == name.split() for option in some]
    options = [] if "--minutes" in words else options
    if any(word.startswith("model.init_from=") for word in words):  # which has an encoder
        at = options.index(f"model.encoder={SMALL['model.encoder']}")
        del options[at - 1 : at + 1]
    fewer = fewer_runs(Path(words[1])) if words[0] == "sweep" and "--dry-run" not in words else []
    done = in_process.run(*words, *options, *fewer)
    assert done.returncode == 0, f"ctcdro {shlex.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr

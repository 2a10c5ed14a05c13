"""The help of all commands: complete, in one style, with examples that parse, and fast."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from in_process import run
from typer.main import get_command

import ctcdro
from ctcdro.cli.main import PANELS, app


def walk(command, path=()):
    """All commands by the words that run them, groups included."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*path, name))


COMMANDS = dict(walk(get_command(app)))
LEAVES = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}

# Beginnings of texts that do not stand alone.
FRAGMENT = re.compile(r"(Of|As|That|Those|Or|Instead|By default|What|Whatever|Which|Whether|Default)\b")


def every(commands):
    return pytest.mark.parametrize("path", commands, ids=lambda path: " ".join(("ctcdro", *path)))


def parameters_of(path):
    """Options and arguments; typer adds those for completion."""
    return [one for one in COMMANDS[path].params if one.name not in ("install_completion", "show_completion")]


def stands_alone(text):
    return bool(re.match(r"[A-Z]|n-gram|lhotse", text)) and text.endswith(".") and not FRAGMENT.match(text)


def help_of(*path):
    """What `--help` shows, without the colors that some terminals and CI services get."""
    return re.sub(r"\x1b\[[0-9;]*m", "", run(*path, "--help").stdout)


def test_the_walk_finds_all_commands():
    readers = {"ml-superb", "common-voice", "fleurs", "kaldi", "nemo", "lhotse", "huggingface", "synthetic"}
    assert {path[1] for path in LEAVES if path[0] == "prepare"} == readers
    assert {path[1] for path in LEAVES if path[0] == "config"} == {"init", "show", "check"}
    assert {path[1] for path in LEAVES if path[0] == "recipes"} == {"list", "copy"}
    assert len(LEAVES) == 23


@every(COMMANDS)
def test_options_and_arguments_have_a_help_text_that_stands_alone(path):
    texts = [parameter.help for parameter in parameters_of(path)]
    assert [text for text in texts if not stands_alone(text)] == []


@every(COMMANDS)
def test_values_have_names_such_as_seconds_or_list_their_choices(path):
    shown = [one.metavar or one.display_type(None) for one in parameters_of(path) if not getattr(one, "is_flag", False)]
    assert [text for text in shown if not re.fullmatch(r"<[\w-]+(\|[\w-]+)+>|[\[\]A-Z=:.]+", text)] == []


@every(COMMANDS)
def test_defaults_are_shown(path):
    with_default = [one for one in parameters_of(path) if one.default is not None]
    assert [one.name for one in with_default if not one.show_default and not one.is_flag] == []
    assert [one.name for one in parameters_of(path) if re.search("[Dd]efault", one.help)] == []


@every(COMMANDS)
def test_every_command_has_a_description_that_stands_alone(path):
    first, *_ = COMMANDS[path].help.split("\n\n")
    assert stands_alone(first)
    assert len(first) <= 100


@every(COMMANDS)
def test_help_ends_with_an_example_that_parses(path):
    shown = " ".join(help_of(*path).split())
    example = shown.rpartition("Example: ctcdro ")[2]
    words = shlex.split(example)
    command = COMMANDS[()]
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    assert command in ([COMMANDS[path]] if path in LEAVES else LEAVES.values())
    with command.make_context(command.name, [], resilient_parsing=True) as context:
        found, rest, _ = command.make_parser(context).parse_args(words)
    assert rest == []
    assert [one.name for one in command.params if one.required and found.get(one.name) in (None, [], ())] == []


@every(LEAVES)
def test_every_command_can_be_quiet_or_verbose(path):
    options = {name for parameter in LEAVES[path].params for name in parameter.opts}
    assert {"--quiet", "-q", "--verbose", "-v"} <= options


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_required_arguments_are_marked(command):
    shown = " ".join(help_of(command).replace("│", " ").split())
    for name in ("CONFIG", "--out"):
        assert re.search(rf"\* {name} [^*]*\[required\]", shown), shown


def test_the_first_page_groups_the_commands():
    shown = help_of()
    places = [shown.index(f"─ {panel} ─") for panel in ("Data", "Train", "Evaluate", "Use", "Other")]
    assert places == sorted(places)
    listed = re.findall(r"│ (\w+)  +[A-Z]", shown[places[0] :])
    assert listed == [name for commands in PANELS.values() for name in commands]
    assert {path[0] for path in COMMANDS if path} == set(listed)


def test_the_command_without_arguments_prints_its_help():
    done = run()
    assert done.returncode == 2
    assert done.stdout.split() == run("--help").stdout.split()


def test_the_version_is_that_of_the_package():
    assert run("--version").stdout == f"ctcdro {ctcdro.__version__}\n"


def test_a_shell_can_complete_commands():
    typed = {"COMP_WORDS": "ctcdro prepare fl", "COMP_CWORD": "2", "_CTCDRO_COMPLETE": "complete_bash"}
    command = [sys.executable, "-m", "ctcdro"]
    done = subprocess.run(command, env={**os.environ, **typed}, capture_output=True, text=True)
    assert done.stdout.split() == ["fleurs"]


def test_help_imports_nothing_slow():
    slow = {"torch", "numpy", "soundfile", "transformers", "accelerate", "yaml", "langcodes", "scipy", "matplotlib"}
    program = (
        "import sys; sys.argv = ['ctcdro', '--help']\n"
        "from ctcdro.cli.main import main\n"
        "try: main()\n"
        f"except SystemExit: print(*{slow!r} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "prepare" in done.stdout
    assert done.stderr.split() == []

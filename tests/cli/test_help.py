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


# Options and arguments of all commands; typer adds those for completion.
PARAMETERS = [
    (" ".join(("ctcdro", *path, str(one.name))), one)
    for path, command in COMMANDS.items()
    for one in command.params
    if one.name not in ("install_completion", "show_completion")
]


def stands_alone(text):
    return bool(re.match(r"[A-Z]|n-gram|lhotse", text)) and text.endswith(".") and not FRAGMENT.match(text)


def is_flag(parameter):
    return getattr(parameter, "is_flag", False)


def help_of(*path):
    """What `--help` shows, without the colors that some terminals and CI services get."""
    return re.sub(r"\x1b\[[0-9;]*m", "", run(*path, "--help").stdout)


def test_the_walk_finds_all_commands():
    commands = {"ml-superb", "common-voice", "fleurs", "kaldi", "nemo", "lhotse", "huggingface", "synthetic", "joined"}
    assert {path[1] for path in LEAVES if path[0] == "prepare"} == commands
    assert {path[1] for path in LEAVES if path[0] == "config"} == {"init", "show", "check"}
    assert {path[1] for path in LEAVES if path[0] == "recipes"} == {"list", "copy"}
    assert len(LEAVES) == 28


def test_options_and_arguments_have_a_help_text_that_stands_alone():
    assert len(PARAMETERS) > 200
    assert [where for where, one in PARAMETERS if not stands_alone(one.help)] == []


def test_values_have_names_such_as_seconds_or_list_their_choices():
    shown = [(where, one.metavar or one.display_type(None)) for where, one in PARAMETERS if not is_flag(one)]
    assert [pair for pair in shown if not re.fullmatch(r"<[\w-]+(\|[\w-]+)+>|[\[\]A-Z=:.]+", pair[1])] == []


def test_defaults_are_shown():
    with_default = [(where, one) for where, one in PARAMETERS if one.default is not None]
    assert [where for where, one in with_default if not one.show_default and not is_flag(one)] == []
    assert [where for where, one in PARAMETERS if re.search("[Dd]efault", one.help)] == []


def test_every_command_has_a_description_that_stands_alone():
    first = {path: command.help.split("\n\n")[0] for path, command in COMMANDS.items()}
    assert [path for path, text in first.items() if not stands_alone(text) or len(text) > 100] == []


def test_help_ends_with_an_example_that_parses():
    for path, described in COMMANDS.items():
        shown = " ".join(help_of(*path).split())
        words = shlex.split(shown.rpartition("Example: ctcdro ")[2])
        command = COMMANDS[()]
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        assert command in ([described] if path in LEAVES else LEAVES.values()), path
        with command.make_context(command.name, [], resilient_parsing=True) as context:
            found, rest, _ = command.make_parser(context).parse_args(words)
        assert rest == [], path
        missing = [one.name for one in command.params if one.required and found.get(one.name) in (None, [], ())]
        assert missing == [], path


def test_every_command_can_be_quiet_or_verbose():
    for path, command in LEAVES.items():
        options = {name for parameter in command.params for name in parameter.opts}
        assert {"--quiet", "-q", "--verbose", "-v"} <= options, path


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_required_arguments_are_marked(command):
    shown = " ".join(help_of(command).replace("│", " ").split())
    for name in ("CONFIG", "--out"):
        assert re.search(rf"\* {name} [^*]*\[required\]", shown), shown


def test_the_first_page_groups_the_commands():
    shown = help_of()
    places = [shown.index(f"─ {panel} ─") for panel in ("Data", "Train", "Evaluate", "Use", "Other")]
    assert places == sorted(places)
    listed = re.findall(r"│ ([\w-]+)  +[A-Z]", shown[places[0] :])
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


def test_brackets_in_descriptions_are_not_taken_for_markup():
    shown = " ".join(run("groups", "--help").stdout.split())
    assert "for `data.group_by: [group]`, and a page" in shown


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

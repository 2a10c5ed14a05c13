"""The examples run, and show what they promise."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_minimal_loop_gives_the_noisy_language_the_most_weight(capsys):
    example = runpy.run_path(str(EXAMPLES / "minimal_loop.py"))
    clear, plain, noisy = example["main"](num_epochs=3).tolist()
    assert noisy > plain > clear
    assert capsys.readouterr().out.count("noisy") == 3

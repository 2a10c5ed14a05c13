"""Virtual environments for the tests of the package, in layers: each sees its own packages and those of one base.

The base holds torch and numpy, which every installation has, so torch is installed once. A layer holds the wheel with
one extra. A layer therefore behaves as a fresh environment does in which torch was installed first.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLKITS = ROOT / "tests" / "integrations" / "requirements"
PINNED = [ROOT / "constraints.txt", Path(__file__).with_name("requirements.txt")]
PINNED += [TOOLKITS / f"{name}.txt" for name in ("lhotse", "lightning", "speechbrain")]


class Environment:
    """A virtual environment without pip: that of the running Python installs into it."""

    def __init__(self, folder: Path, base: "Environment | None" = None) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False)
        [self.packages] = folder.glob("lib/python*/site-packages")
        if base is not None:
            (self.packages / "base.pth").write_text(str(base.packages))

    def pip(self, *arguments: object) -> None:
        self._run([sys.executable, "-m", "pip", "--python", self.folder, *arguments], self.folder)

    def install(self, *requirements: object) -> None:
        constraints = [word for file in PINNED for word in ("--constraint", file)]
        self.pip("install", "--quiet", "--no-compile", *constraints, *requirements)

    def run(self, *command: object, cwd: Path, status: int = 0) -> str:
        """Output of a command of the environment, run outside the source tree with one thread and without the hub."""
        return self._run([self.folder / "bin" / str(command[0]), *command[1:]], cwd, status)

    def _run(self, command: list[object], cwd: Path, status: int = 0) -> str:
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
        path = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        variables |= {"PATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        words = [str(word) for word in command]
        done = subprocess.run(
            words, cwd=cwd, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert done.returncode == status, f"{' '.join(words)}\nexit status {done.returncode}\n{done.stdout}"
        return done.stdout

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from environments import ROOT, Environment


@pytest.fixture(scope="session")
def workspace(tmp_path_factory):
    """A folder for gigabytes, removed at the end."""
    folder = tmp_path_factory.mktemp("package")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def tracked():
    """All files under version control, relative to the root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [Path(name) for name in listed.stdout.rstrip("\0").split("\0") if (ROOT / name).exists()]


@pytest.fixture(scope="session")
def distributions(workspace, tracked):
    """The wheel and the source distribution, built from a copy of the files under version control."""
    for path in tracked:
        (workspace / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, workspace / "source" / path)
    command = [sys.executable, "-m", "build", "--outdir", workspace / "dist", workspace / "source"]
    done = subprocess.run(command, cwd=workspace, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    [wheel], [sdist] = (workspace / "dist").glob("*.whl"), (workspace / "dist").glob("*.tar.gz")
    return wheel, sdist, done.stdout


@pytest.fixture(scope="session")
def wheel(distributions):
    return distributions[0]


@pytest.fixture(scope="session")
def base(workspace):
    environment = Environment(workspace / "base")
    environment.install("torch", "numpy")
    return environment


@pytest.fixture(scope="session")
def environment_with(workspace, base, wheel):
    """Returns the environment with the wheel and one extra; it is created once."""
    made = {}

    def get(extra):
        if extra not in made:
            made[extra] = Environment(workspace / f"with-{extra or 'nothing'}", base)
            made[extra].install(f"ctcdro[{extra}] @ {wheel.as_uri()}" if extra else f"ctcdro @ {wheel.as_uri()}")
            made[extra].pip("check")
        return made[extra]

    return get

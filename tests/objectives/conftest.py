import pytest
from objective_runs import OBJECTIVES, WITH_CHARACTERS

from ctcdro.objectives import host_memory


@pytest.fixture(params=["on the host", "on the device"])
def path(request, monkeypatch):
    """Runs a test twice: as on a CPU, and with the tensor operations that are for other devices."""
    if request.param == "on the device":
        monkeypatch.setattr(host_memory, "is_readable", lambda *tensors: False)
    return request.param


@pytest.fixture(params=OBJECTIVES)
def make(request):
    """Creates an objective of each kind, to be called with losses and groups."""
    return OBJECTIVES[request.param]


@pytest.fixture(params=OBJECTIVES | WITH_CHARACTERS)
def make_any(request):
    """Creates an objective of each kind, to be called with characters, too."""
    return (OBJECTIVES | WITH_CHARACTERS)[request.param]

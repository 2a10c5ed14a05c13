import signal

import pytest
from cpu_bfloat16 import pytest_configure, pytest_runtest_setup  # noqa: F401
from crashed_workers import pytest_sessionfinish, pytest_testnodedown  # noqa: F401
from hypothesis import settings

# Reproducible: examples are drawn from a fixed seed, and no test depends on time.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=False)
settings.load_profile("repeatable")

# A shell makes its background processes ignore Ctrl-C, and processes that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def one_thread():
    """One thread per test: small models are slower with more, especially on a busy machine, and bits would differ."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Tiny checkpoints of every family of encoders, by name."""
    import tiny_encoders

    return {name: tiny_encoders.write(name, tmp_path_factory.mktemp("encoder")) for name in tiny_encoders.MODELS}


@pytest.fixture(scope="session")
def browser():
    """Chromium, driven by the package playwright."""
    import shutil

    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.fail("There is no Chromium; on Debian: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found)
        yield browser
        browser.close()


def pytest_collection_modifyitems(items):
    """Runs the slowest files first, so that no worker process is left with one of them at the end."""
    longest = ("test_loop", "test_demo", "test_restarts", "test_sweep", "test_tutorials", "test_corpus", "test_page")
    items.sort(key=lambda item: item.path.stem not in longest)

"""Chromium, driven by the package playwright."""

import shutil

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.fail("There is no Chromium; on Debian: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found)
        yield browser
        browser.close()

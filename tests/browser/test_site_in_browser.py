"""The site of the documentation, opened as a file: `make test-browser`."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 740}}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for package in ("material", "mkdocstrings", "latex2mathml"):
        pytest.importorskip(package, reason="the extra `docs` is not installed; `make docs` does")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("start", ["index.html", "reference/api/core.html"])
def test_the_search_finds_pages_without_a_server_or_a_network(browser, site, screen, start):
    page = browser.new_page(viewport=SCREENS[screen])
    asked, faults = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: faults.append(error))
    page.goto((site / start).as_uri())
    if screen == "phone":
        page.locator("label.md-header__button[for=__search]").click()
    page.locator(".md-search__input").click()
    page.keyboard.type("clipping", delay=50)
    page.wait_for_selector(".md-search-result__item")
    links = [one.get_attribute("href") for one in page.locator(".md-search-result__link").all()]
    page.close()
    assert any("method.html" in link for link in links)
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)
    assert not faults

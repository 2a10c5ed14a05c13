"""The page of `ctcdro report` in a real browser, as a phone and as a desktop: `make test-browser`.

Needs Chromium and the package playwright; screenshots are written to build/screenshots.
"""

import json
import time
from pathlib import Path

import pytest
from hostile_runs import STRINGS, write_hostile_runs
from run_folders import write_evaluation, write_run
from tones import write_dataset

from ctcdro.report.page import write_report
from ctcdro.report.read_runs import read_runs
from ctcdro.scoring.transcripts import Prediction

pytestmark = pytest.mark.browser

HOSTILE = "<script>window.taken = true</script><img src=x onerror='window.taken = true'>"
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"

SCREENS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True},
}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A page about six runs, with texts and names that try to be executed."""
    folder = tmp_path_factory.mktemp("report")
    dataset = write_dataset(folder / "tones", languages=("aaa", "bbb", "ccc"), num_train=6, num_dev=8)
    for objective, share in (("erm", 0.3), ("group-dro", 0.25), ("ctc-dro", 0.1)):
        for seed in (0, 1):
            run = write_run(folder / "runs" / f"{objective}-{seed} <b onclick=x>", dataset, objective, seed, share)
            [result] = read_runs([run.path]).runs
            first, *others = result.predictions
            taking = Prediction(first.id, first.lang, HOSTILE, "</script><b>", HOSTILE[::-1])
            write_evaluation(run, [taking, *others])
    write_report([folder], folder / "page.html", num_worst=8)
    return (folder / "page.html").as_uri()


class Opened:
    """A page opened offline, with its console messages and requests."""

    def __init__(self, browser, address, **options):
        self.context = browser.new_context(offline=True, **options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)


def wait_until(page, condition, seconds=30):
    """Like playwright's `wait_for_function`, which the security policy of the page forbids."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)


@pytest.fixture(params=SCREENS)
def opened(request, browser, address):
    opened = Opened(browser, address, **SCREENS[request.param])
    opened.name = request.param
    yield opened
    opened.context.close()
    assert opened.complaints == []


def test_it_opens_without_a_network_and_asks_for_nothing(opened, address):
    assert [url[:60] for url in opened.requests if url != address and not url.startswith(("data:", "blob:"))] == []
    assert opened.page.title().startswith("Speech recognition by language")


def test_every_figure_is_drawn(opened):
    page = opened.page
    assert page.locator(".plot svg").count() == 1 + 4 + 3 + 1  # CER, weights, confusions, durations
    labels = page.locator("#cer svg text").all_text_contents()
    assert {"Ghotuo (aaa)", "Barai (bbb)", "Chamicuro (ccc)", "CER in percent", "CTC-DRO"} <= set(labels)
    assert page.locator("[id^=confusion-] svg image").count() == 3
    sizes = page.eval_on_selector_all(
        ".plot svg", "all => all.map((one) => [one.getBoundingClientRect().width, one.getBoundingClientRect().height])"
    )
    assert all(200 < width <= page.viewport_size["width"] and height > 100 for width, height in sizes)


def test_text_in_figures_lies_within_them_and_can_be_read(opened):
    outside = """() => [...document.querySelectorAll(".plot svg")].flatMap((svg) => {
        const frame = svg.getBoundingClientRect();
        return [...svg.querySelectorAll("text")].filter((text) => {
            const box = text.getBoundingClientRect();
            return box.left < frame.left - 2 || box.right > frame.right + 2 || box.height < 6;
        }).map((text) => text.textContent);
    })"""
    assert opened.page.evaluate(outside) == []


def test_nothing_is_wider_than_the_screen(opened):
    opened.page.eval_on_selector_all("details", "all => all.forEach((one) => (one.open = true))")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= opened.page.viewport_size["width"]


def order(page, table, place=0):
    cells = f"#{table} tbody tr > :nth-child({place + 1})"
    return [text.strip() for text in page.locator(cells).all_inner_texts()]


def test_tables_are_sorted_by_a_click_and_by_the_keyboard(opened):
    page, table = opened.page, "table-runs"
    before = order(page, table)
    head = page.locator(f"#{table} thead th").nth(1)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    values = [float(text.split()[0]) for text in order(page, table, 1)]
    assert values == sorted(values)
    page.keyboard.press("Enter")  # the button has the focus
    assert head.get_attribute("aria-sort") == "descending"
    values = [float(text.split()[0]) for text in order(page, table, 1)]
    assert values == sorted(values, reverse=True)
    first = page.locator(f"#{table} thead th").first
    first.locator("button").focus()
    page.keyboard.press("Space")
    assert first.get_attribute("aria-sort") == "ascending"
    assert head.get_attribute("aria-sort") is None
    assert order(page, table) == sorted(before)


def test_what_is_missing_is_sorted_last_either_way(opened):
    page = opened.page
    button = page.locator("#table-results thead button", has_text="step size")
    for _ in range(2):
        button.click()
        assert order(page, "table-results")[-1] == "Baseline (ERM)"


def test_audio_plays_by_the_keyboard(opened):
    page = opened.page
    assert page.locator("audio").count() == 8
    page.locator("audio").nth(1).focus()
    page.keyboard.press("Space")
    wait_until(page, "document.querySelectorAll('audio')[1].currentTime > 0.05")
    assert page.evaluate("document.querySelectorAll('audio')[1].duration") == pytest.approx(1.0, abs=0.9)
    assert page.evaluate("[...document.querySelectorAll('audio')].every((one) => one.error === null)")


def test_texts_and_names_from_data_are_shown_and_not_run(opened):
    page = opened.page
    assert page.evaluate("window.taken") is None
    assert page.locator("q", has_text=HOSTILE).count() == 1
    assert page.locator("#table-runs", has_text="erm-0 <b onclick=x>").count() == 1
    assert page.locator("main b[onclick], main img").count() == 0
    assert "</script><b>" in page.locator("[id^=confusion-] svg").first.text_content()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A page whose languages, ids, texts, names, settings and machines all try to be executed."""
    folder = write_hostile_runs(tmp_path_factory.mktemp("hostile"))
    write_report([folder], folder / "page.html", num_worst=len(STRINGS))
    return (folder / "page.html").as_uri()


@pytest.mark.parametrize("screen", SCREENS)
def test_nothing_of_data_is_run_whatever_it_is_called(browser, hostile, screen):
    opened = Opened(browser, hostile, **SCREENS[screen])
    page, dialogs = opened.page, []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.eval_on_selector_all("details", "all => all.forEach((one) => (one.open = true))")
    for button in page.locator("thead button").all():  # sorting moves the rows
        button.dispatch_event("click")
    for selector in ("th", "td", "h4", "q", "audio", ".plot text"):
        for one in page.locator(selector).all()[:40]:
            one.dispatch_event("mouseover")
            one.dispatch_event("focus")
    assert page.evaluate("window.taken") is None
    assert dialogs == []
    assert page.locator("main img, main iframe, main object, main form, main a[href^=javascript]").count() == 0
    handlers = (
        "all => all.flatMap((one) => [...one.attributes].map((own) => own.name)).filter((name) => /^on/.test(name))"
    )
    assert page.eval_on_selector_all("*", handlers) == []
    assert page.eval_on_selector_all("svg a", "all => all.map((one) => one.outerHTML)") == []
    shown = page.locator("main").inner_text()
    assert all(string in shown for string in STRINGS if string.isprintable())
    assert "49{" not in shown
    assert [url[:60] for url in opened.requests if url != hostile and not url.startswith(("data:", "blob:"))] == []
    opened.context.close()
    assert opened.complaints == []


def test_the_first_key_skips_to_the_results(opened):
    page = opened.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    wait_until(page, "Math.abs(document.querySelector('#main').getBoundingClientRect().top) < 5")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_text_can_be_read_in_light_and_dark(browser, address, screen, scheme):
    opened = Opened(browser, address, color_scheme=scheme, **SCREENS[screen])
    style = "(name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
    paper, shade = (opened.page.evaluate(style, name) for name in ("--paper", "--shade"))
    assert (luminance(paper) < 0.1) == (scheme == "dark")
    for name in ("--ink", "--quiet", "--accent", "--replace", "--delete", "--insert"):
        color = opened.page.evaluate(style, name)
        assert min(contrast(color, paper), contrast(color, shade)) >= 4.5, name
    tick = opened.page.locator("#cer svg text").first.evaluate("one => getComputedStyle(one).fill")
    ink = opened.page.evaluate("getComputedStyle(document.body).color")
    assert tick == ink
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    opened.page.screenshot(path=SCREENSHOTS / f"{screen}-{scheme}.png", full_page=True)
    opened.context.close()
    assert opened.complaints == []


def luminance(color):
    """Relative luminance of #rrggbb, as WCAG 2 defines it."""
    channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_figures_follow_when_the_scheme_changes(browser, address):
    opened = Opened(browser, address, color_scheme="light")
    fill = "getComputedStyle(document.querySelector('#cer svg text')).fill"
    before = opened.page.evaluate(fill)
    opened.page.emulate_media(color_scheme="dark")
    wait_until(opened.page, f"{fill} !== {json.dumps(before)}")
    opened.context.close()
    assert opened.complaints == []


def test_everything_is_printed(browser, address):
    opened = Opened(browser, address)
    assert len(opened.page.pdf()) > 10_000
    assert opened.page.locator("details:not([open])").count() == 0
    opened.context.close()
    assert opened.complaints == []


def test_tables_and_figures_need_no_scripts(browser, address):
    opened = Opened(browser, address, java_script_enabled=False)
    assert opened.page.locator("#table-results tbody tr").count() == 3
    assert opened.page.locator("#cer svg").is_visible()
    opened.context.close()


def test_every_table_and_figure_is_named_for_those_who_do_not_see_it(browser, address):
    opened = Opened(browser, address)
    page = opened.page
    assert page.locator("table").count() == page.locator("table > caption").count() > 10
    assert page.locator("thead th:not([scope=col])").count() == page.locator("tbody th:not([scope=row])").count() == 0
    assert page.locator(".plot:not([aria-label])").count() == page.locator("audio:not([aria-label])").count() == 0
    levels = page.eval_on_selector_all("h1, h2, h3, h4, h5", "all => all.map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    opened.context.close()


def test_a_script_that_gets_into_the_page_is_not_run(browser, address):
    """The security policy allows only the page's own scripts, even if text were not escaped."""
    opened = Opened(browser, address)
    opened.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.taken = true";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.taken = true'>");
        }"""
    )
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate("window.taken") is None
    assert any("Content Security Policy" in one for one in opened.complaints)
    opened.context.close()

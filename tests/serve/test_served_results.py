"""Results are HTML in which nothing from data is run."""

from html.parser import HTMLParser

from hostile_runs import STRINGS

from ctcdro.decoding.transcript import RecordingTranscript, Segment, TimedCharacter, TimedWord
from ctcdro.serve.recognition import Recognition
from ctcdro.serve.results import read_asset, render_problem, render_results

ELEMENTS = {"p", "b", "div", "section", "h3", "span", "ul", "li", "meter", "figure", "figcaption"}


class Elements(HTMLParser):
    """The elements, attributes and texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.attributes, self.texts, self.words = set(), set(), [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.add(tag)
        self.attributes.update(name for name, _ in attributes)
        if dict(attributes).get("class") == "word":
            self.words.append(dict(attributes))

    def handle_data(self, data):
        self.texts.append(data)


def transcript_of(words, languages):
    spoken = tuple(
        TimedWord((TimedCharacter(text, 0.5 * number, 0.5 * number + 0.25, 0.9),)) for number, text in enumerate(words)
    )
    return RecordingTranscript("/private/a.wav", 9.0, (Segment(0.0, 9.0, next(iter(languages)), languages, spoken),))


def test_names_words_languages_and_references_are_text():
    for string in STRINGS:
        result = Recognition(string, transcript_of([string, "b"], {string: 0.75, "aaa": 0.25}), 0.5, "", string, "")
        found = Elements(render_results([result, Recognition(string, problem=string)], string))
        assert found.elements <= ELEMENTS
        assert not {name for name in found.attributes if name.startswith("on")}
        assert sum(string in text for text in found.texts) == 7
        problem = Elements(render_problem(string))
        assert (problem.elements, problem.texts) == ({"p"}, [string])


def test_words_carry_their_times_and_languages_their_probabilities():
    languages = {"ces": 0.5, "kor": 0.3, "aaa": 0.15, "bbb": 0.05}
    page = render_results([Recognition("run", transcript_of(["dobrý", "den"], languages), 0.123)])
    found = Elements(page)
    assert [(word["data-start"], word["data-end"]) for word in found.words] == [("0.000", "0.250"), ("0.500", "0.750")]
    texts = [text.strip() for text in found.texts if text.strip()]
    assert [text for text in texts if "%" in text or "(" in text][1:5] == [
        "Czech (ces)",
        "50.0%",
        "Korean (kor)",
        "30.0%",
    ]
    assert "CER 12.3%" in texts
    assert "Barai (bbb)" not in page  # the fourth language
    assert "private" not in page


def test_silence_is_reported_as_such():
    page = render_results([Recognition("run", transcript_of([], {"ces": 1.0}))])
    assert "No speech was recognized." in page


def test_the_assets_of_the_page_load_nothing():
    for name in ("page.css", "page.js"):
        assert not {"http", "url(", "@import", "fetch(", "innerHTML"} & set(read_asset(name).split())
        assert "//" not in read_asset(name).replace("// ", "")

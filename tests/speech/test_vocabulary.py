"""The vocabulary: text to labels and back, in any script; and the text profiles."""

import json
import unicodedata

import pytest
from cases import case
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.speech.normalization import PROFILES, clean, normalize, paper
from ctcdro.speech.vocabulary import BLANK, REPLACEMENT, SPECIAL_TOKENS, Vocabulary, frames_needed

any_text = st.text(st.characters(codec="utf-8"), max_size=40)
spoken = any_text.map(clean).filter(lambda text: "|" not in text)


@given(st.lists(st.tuples(spoken, st.sampled_from(["ces", "cmn", "x-klingon"])), min_size=1, max_size=5))
def test_what_is_encoded_is_decoded(utterances):
    vocabulary = Vocabulary.of((text for text, _ in utterances), (language for _, language in utterances))
    for text, language in utterances:
        labels = vocabulary.encode(text, language)
        assert len(labels) == len(text) + 1
        assert BLANK not in [vocabulary.tokens[label] for label in labels]
        assert vocabulary.decode(labels) == (language, text)
        frames = [frame for label in labels for frame in (0, label, label)]  # as CTC would have it
        assert vocabulary.decode_frames([*frames, 0]) == (language, text)


@given(st.lists(spoken, min_size=1), st.randoms(use_true_random=False))
def test_the_same_texts_in_any_order_give_the_same_labels(texts, random):
    pairs = [(text, random.choice("ab")) for text in texts]
    vocabulary, other = (Vocabulary.of(*zip(*some, strict=True)) for some in (pairs, random.sample(pairs, len(pairs))))
    assert vocabulary == other
    assert vocabulary.characters_by_language == other.characters_by_language


@given(st.lists(spoken, min_size=1))
def test_what_is_saved_is_loaded(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.json"
    vocabulary = Vocabulary.of([*texts, "[]"], [*["ces"] * len(texts), "nan"])
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary
    assert [file.name for file in path.parent.iterdir()] == ["vocab.json"]


def test_blank_is_zero_and_repeats_need_a_blank_between():
    vocabulary = Vocabulary.of(["anna"], ["ces"])
    assert vocabulary.tokens == [*SPECIAL_TOKENS, "[ces]", "a", "n"]
    assert vocabulary.tokens[0] == BLANK
    assert len(vocabulary) == 6
    assert vocabulary.decode_frames([3, 4, 5, 5, 4]) == ("ces", "ana")
    assert vocabulary.decode_frames([3, 4, 5, 0, 5, 4]) == ("ces", "anna")


def test_equal_labels_in_a_row_need_one_more_frame():
    assert [frames_needed(labels) for labels in ([], [3], [3, 8, 5], [3, 8, 8, 5])] == [0, 1, 3, 5]


def test_the_first_language_token_counts_wherever_it_stands():
    vocabulary = Vocabulary.of(["a b", ""], ["ces", "cmn"])
    ces, cmn = (vocabulary.tokens.index(token) for token in ("[ces]", "[cmn]"))
    a, space = vocabulary.tokens.index("a"), vocabulary.tokens.index("|")
    assert vocabulary.decode([a, space, cmn, a, ces]) == ("cmn", "a a")
    assert vocabulary.decode([a, a]) == (None, "aa")
    assert vocabulary.decode([]) == (None, "")


def test_unknown_characters_have_one_label_and_show_in_the_text():
    vocabulary = Vocabulary.of(["ab"], ["ces"])
    assert vocabulary.encode("axby", "ces") == [3, 4, 1, 5, 1]
    assert vocabulary.decode([3, 4, 1, 5, 1]) == ("ces", f"a{REPLACEMENT}b{REPLACEMENT}")


def test_characters_that_look_like_tokens_stay_characters():
    vocabulary = Vocabulary.of(["[ces]"], ["ces"])
    assert vocabulary.decode(vocabulary.encode("[ces]", "ces")) == ("ces", "[ces]")


def test_an_unknown_language_is_named():
    with pytest.raises(ValueError, match="`language` must be one of ces, cmn; got 'khm'"):
        Vocabulary.of(["a", "a"], ["ces", "cmn"]).encode("a", "khm")


def test_what_cannot_be_a_token_is_rejected():
    for languages, characters, message in (
        (["c es"], "a", "`languages` must be codes without spaces or brackets; got 'c es'"),
        ([""], "a", "`languages` must be codes .* got ''"),
        (["ces"], ["ab"], "`characters` must be single.*got 'ab'"),
        (["ces"], "a|", r"`characters` must be .*other than '\|'.*got '\|'"),
        (["ces"], "a\t", r"`characters` must be .*got '\\t'"),
    ):
        with case(message), pytest.raises(ValueError, match=message):
            Vocabulary(languages, characters)


def test_a_file_that_holds_no_vocabulary_is_named(tmp_path):
    path = tmp_path / "vocab.json"
    unsorted = json.dumps({"<pad>": 0, "<unk>": 1, "|": 2, "b": 3, "a": 4})
    for content in ("", "[]", "{}", '{"<pad>": 0, "a": 1}', unsorted):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"vocab\.json: not a vocabulary written by ctcdro"):
            Vocabulary.load(path)


# Text profiles.


@given(any_text)
def test_clean_text_is_composed_without_punctuation_and_stays_as_it_is(text):
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert unicodedata.is_normalized("NFC", cleaned)
    assert not any(unicodedata.category(character).startswith("P") for character in cleaned)
    assert cleaned == " ".join(cleaned.split())


def test_clean_on_texts_of_many_scripts():
    texts = {
        "[noise] hello world [laugh] bye": "hello world bye",
        "¿Qué? «sí» — “no”…": "qué sí no",
        "你好，世界。": "你好世界",
        "re\u0301sume\u0301": "r\u00e9sum\u00e9",
        "Straße": "straße",
        "مرحبا، كيف؟": "مرحبا كيف",
        "  tab\there \r\n": "tab here",
        "[unclosed tag": "unclosed tag",
    }
    assert {raw: clean(raw) for raw in texts} == texts


def test_clean_removes_marks_of_text_direction():
    for mark in ("\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069"):
        assert clean(f"{mark}سلا{mark}م {mark} دنیا") == "سلام دنیا"


def test_clean_keeps_joiners_that_scripts_need():
    for joiner in ("\u200c", "\u200d"):
        assert clean(f"می{joiner}خواهم") == f"می{joiner}خواهم"


def test_the_papers_profile_has_the_authors_greedy_brackets():
    assert paper("[noise] hello world [laugh] bye") == "BYE"
    assert paper("Straße, «ano»…") == "STRASSE «ANO»…"


def test_profiles_go_by_name():
    assert set(PROFILES) == {"clean", "paper", "none"}
    assert normalize(" Dobry\u0301  den! ", "none") == "Dobr\u00fd den!"
    with pytest.raises(ValueError, match="`text_norm` must be one of clean, none, paper; got 'cleen'"):
        normalize("a", "cleen")


def test_what_clean_leaves_can_be_labels():
    assert clean("a | b\x00c\u2028d\tẹ") == "a bc d ẹ"
    Vocabulary.of([clean("a|b\x1b[2J")], ["ces"])


def test_the_tokenizer_of_transformers_has_the_same_labels(tmp_path):
    from transformers import Wav2Vec2CTCTokenizer

    spoken = {"ces": "dobrý den", "cmn": "你好", "hin": "नमस्ते दुनिया", "ara": "السَّلامُ عليكم"}
    vocabulary = Vocabulary.of(spoken.values(), spoken.keys())
    vocabulary.save_tokenizer(tmp_path)
    tokenizer = Wav2Vec2CTCTokenizer.from_pretrained(tmp_path)
    assert len(tokenizer) == len(vocabulary)
    assert tokenizer.pad_token_id == 0
    assert Vocabulary.load(tmp_path / "vocab.json") == vocabulary
    for language, text in spoken.items():
        labels = vocabulary.encode(text, language)
        assert tokenizer(f"[{language}]{text}").input_ids == labels
        frames = [label for one in labels for label in (one, one, 0)]
        assert tokenizer.decode(frames) == f"[{language}]{text}"
    assert tokenizer("[ces]dxn").input_ids == vocabulary.encode("dxn", "ces")


def test_the_union_has_the_labels_and_the_characters_by_language_of_both():
    czech = Vocabulary.of(["ab"], ["ces"])
    both = czech | Vocabulary.of(["bc", "가"], ["ces", "kor"])
    assert both == Vocabulary(["ces", "kor"], "abc가")
    assert both.characters_by_language == {"ces": "abc", "kor": "가"}
    assert (czech | Vocabulary(["kor"], "가")).characters_by_language is None

"""Counts agree with a textbook edit distance and with NIST's sclite; profiles with values worked out by hand."""

import json
import random
import re
import shutil
import statistics
import subprocess
import unicodedata
from pathlib import Path

import jiwer
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.scoring.scores import PROFILES, Scores, count, count_as_sclite, count_characters, count_words, score
from ctcdro.scoring.transcripts import Prediction
from ctcdro.speech.normalization import clean

SCLITE = shutil.which("sclite") or shutil.which("sclite", path="/usr/lib/sctk/bin")

# Letters with and without marks of their own, right to left, without spaces, outside of the first plane.
SCRIPTS = [
    "abcdefg",
    "áéíčřžý",
    "e\u0301\u0308\u0327o",
    "абвгдёй",
    "שלום\u05b8\u05b7",
    "السلام\u064b\u0651",
    "नमस्ते",
    "ก็ได้ครับ",
    "你好吗世界",
    "안녕하세요",
    "ꦗꦮ𐎠𐎡𝒜😀",
]


def edit_distance(reference, hypothesis):
    """The textbook's: a row of the table at a time."""
    row = list(range(len(hypothesis) + 1))
    for i, expected in enumerate(reference, start=1):
        diagonal, row[0] = row[0], i
        for j, found in enumerate(hypothesis, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (expected != found))
    return row[-1]


def bent(generator, symbols, alphabet, rate):
    """Symbols, of which some are replaced, dropped or doubled."""
    found = []
    for symbol in symbols:
        fate = generator.random()
        if fate >= rate:
            found.append(symbol)
        elif fate > rate * 0.6:
            found.append(generator.choice(alphabet))
        elif fate > rate * 0.3:
            found += [symbol, generator.choice(alphabet)]
    return found


def random_texts(number, seed=0):
    """Pairs of texts of one to eight words, in many scripts; some are empty."""
    generator = random.Random(seed)
    for _ in range(number):
        alphabet = [*generator.choice(SCRIPTS), " "]
        reference = [generator.choice(alphabet) for _ in range(generator.choice([0, 1, 5, 20, 40]))]
        hypothesis = bent(generator, reference, alphabet, generator.random())
        yield tuple(" ".join("".join(text).split()) for text in (reference, hypothesis))


def utterance(number, lang="ces", text="ahoj", hyp_text="ahoj", hyp_lang=None):
    return Prediction(f"u{number}", lang, text, hyp_lang, hyp_text)


def test_counts_agree_with_the_textbook_in_many_scripts():
    references, hypotheses = zip(*random_texts(3000), strict=True)
    characters, words = count_characters(references, hypotheses), count_words(references, hypotheses)
    for number, (reference, hypothesis) in enumerate(zip(references, hypotheses, strict=True)):
        assert characters.total[number] == edit_distance(reference, hypothesis)
        assert characters.reference[number] == len(reference)
        assert words.total[number] == edit_distance(reference.split(), hypothesis.split())
        assert words.reference[number] == len(reference.split())
        assert characters.insertions[number] - characters.deletions[number] == len(hypothesis) - len(reference)


def test_counts_are_those_of_jiwer():
    references, hypotheses = zip(*(pair for pair in random_texts(1000, seed=1) if pair[0]), strict=True)
    for ours, theirs in (
        (count_characters(references, hypotheses), jiwer.process_characters(list(references), list(hypotheses))),
        (count_words(references, hypotheses), jiwer.process_words(list(references), list(hypotheses))),
    ):
        together = ours.of(slice(None))
        assert together.substitutions == theirs.substitutions
        assert together.deletions == theirs.deletions
        assert together.insertions == theirs.insertions


texts = st.text(alphabet="ab c\u0301дש你", max_size=12).map(lambda text: " ".join(text.split()))


@given(texts, texts)
def test_edits_are_zero_only_of_equal_texts_and_bounded_by_the_longer(reference, hypothesis):
    total = int(count_characters([reference], [hypothesis]).total[0])
    assert (total == 0) == (reference == hypothesis)
    assert abs(len(reference) - len(hypothesis)) <= total <= max(len(reference), len(hypothesis))
    assert total == count_characters([hypothesis], [reference]).total[0]


def cheapest(reference, hypothesis):
    """(3 x edits + substitutions, edits) of the cheapest alignment, by the textbook: sclite's 4, 3 and 3."""
    row = [(3 * j, j) for j in range(len(hypothesis) + 1)]
    for i, expected in enumerate(reference, start=1):
        diagonal, row[0] = row[0], (3 * i, i)
        for j, found in enumerate(hypothesis, start=1):
            steps = [(row[j], 3), (row[j - 1], 3), (diagonal, 4 * (expected != found))]
            diagonal, row[j] = row[j], min((cost + step, edits + (step > 0)) for (cost, edits), step in steps)
    return row[-1]


def test_alignments_as_sclite_are_the_cheapest():
    references, hypotheses = zip(*random_texts(1500, seed=1), strict=True)
    edits = count_as_sclite(references, hypotheses)
    for number, (reference, hypothesis) in enumerate(zip(references, hypotheses, strict=True)):
        cost, fewest = cheapest(reference, hypothesis)
        assert 3 * edits.total[number] + edits.substitutions[number] == cost
        assert edits.total[number] == fewest
        assert edits.insertions[number] - edits.deletions[number] == len(hypothesis) - len(reference)


def run_sclite(folder, references, hypotheses):
    """Substitutions, deletions and insertions by sclite of each pair of sequences, and the Err that it prints."""
    for name, sequences in (("ref", references), ("hyp", hypotheses)):
        lines = (f"{' '.join(symbols)} (u{number}-u{number})\n" for number, symbols in enumerate(sequences))
        (folder / f"{name}.trn").write_text("".join(lines), encoding="utf-8")

    def run(report):
        command = [SCLITE, "-r", "ref.trn", "trn", "-h", "hyp.trn", "trn", "-i", "rm", "-o", report, "stdout"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
        return done.stdout.decode("utf-8", errors="replace")

    aligned = run("pra")
    ids = re.findall(r"id: \(u(\d+)-u", aligned)
    counts = re.findall(r"Scores: \(#C #S #D #I\) \d+ (\d+) (\d+) (\d+)", aligned)
    percents = re.findall(r"\| u(\d+) +\| +1 +\d+ \|(?: *[\d.]+ ){4} *([\d.]+) ", run("sum"))
    return (
        {int(number): tuple(map(int, found)) for number, found in zip(ids, counts, strict=True)},
        {int(number): float(percent) for number, percent in percents},
    )


def random_sequences(kind, number=500):
    generator = random.Random(2)
    alphabet = {
        "characters": ["<space>", *"ABCDEFGHČŘŽÝДШ你好吗שלום"],
        "words": ["AHOJ", "DEN", "DOBRÝ", "ŘEČ", "你好", "שלום", "МИР", "A", "NA", "ZA"],
    }[kind]
    for _ in range(number):
        reference = [generator.choice(alphabet) for _ in range(generator.randint(1, 30))]
        yield reference, bent(generator, reference, alphabet, generator.random() * 0.7)


@pytest.mark.skipif(SCLITE is None, reason="sclite is not installed")
@pytest.mark.parametrize("kind", ["characters", "words"])
def test_counts_agree_with_sclite(kind, tmp_path):
    references, hypotheses = zip(*random_sequences(kind), strict=True)
    counts, percents = run_sclite(tmp_path, references, hypotheses)
    assert len(counts) == len(percents) == len(references)
    ours = count_as_sclite(references, hypotheses)
    plain = [edit_distance(*pair) for pair in zip(references, hypotheses, strict=True)]
    same = same_plain = 0
    for number, (substitutions, deletions, insertions) in counts.items():
        # The cost is always the same; sclite seldom takes more edits than need be at that cost.
        total = substitutions + deletions + insertions
        assert 3 * total + substitutions == 3 * ours.total[number] + ours.substitutions[number]
        assert total >= ours.total[number]
        same += total == ours.total[number]
        same_plain += total == plain[number]
    assert same >= 0.995 * len(counts)
    assert same_plain >= 0.95 * len(counts)


@pytest.mark.skipif(SCLITE is None, reason="sclite is not installed")
def test_the_paper_profile_agrees_with_what_sclite_prints(tmp_path):
    generator = random.Random(3)
    alphabet = [*"ABCDEFGHČŘŽ "]
    records = []
    for number in range(300):
        text = " ".join("".join(generator.choice(alphabet) for _ in range(generator.randint(1, 40))).split()) or "A"
        hypothesis = "".join(bent(generator, text, alphabet, generator.random() * 0.6))
        records.append(utterance(number, "ces", text, " ".join(hypothesis.split()), "ces"))

    def symbols(text):
        return ["<space>" if character == " " else character for character in (f" {text}" if text else "")]

    references = [symbols(record.text) for record in records]
    _, percents = run_sclite(tmp_path, references, [symbols(record.hyp_text) for record in records])
    lengths = [len(reference) for reference in references]
    expected = sum(percents[number] * length for number, length in enumerate(lengths)) / sum(lengths) / 100
    assert score(records, "paper").languages["ces"].cer == pytest.approx(expected, abs=2e-4)


@pytest.mark.skipif(SCLITE is None, reason="sclite is not installed")
def test_rates_are_rounded_as_sclite_does(tmp_path):
    pairs = [
        (["A"] * length, ["A"] * (length - wrong) + ["B"] * wrong) for length in (3, 8, 16, 40) for wrong in (1, 3)
    ]
    references, hypotheses = zip(*pairs, strict=True)
    _, percents = run_sclite(tmp_path, references, hypotheses)
    for number, (reference, hypothesis) in enumerate(pairs):
        edits = count_as_sclite([reference], [hypothesis])
        shares = PROFILES["paper"].shares(edits)
        assert shares.errors.sum() / shares.weights.sum() == pytest.approx(percents[number] / 100)


def test_plain_is_all_edits_over_all_characters_of_clean_text():
    scores = score(
        [
            utterance(1, "ces", "Dobrý den!", "dobry den", "ces"),  # 1 of 9
            utterance(2, "ces", "Ano.", "ano", "slk"),  # 0 of 3
            utterance(3, "cmn", "你好", "", None),  # 2 of 2
        ]
    )
    assert scores.languages["ces"].cer == pytest.approx(1 / 12)
    assert scores.languages["ces"].wer == pytest.approx(1 / 3)
    assert scores.languages["ces"].lid == 0.5
    assert scores.languages["cmn"].cer == scores.languages["cmn"].wer == 1.0
    assert scores.together.cer == pytest.approx(3 / 14)
    assert scores.together.lid == pytest.approx(1 / 3)
    assert scores.worst() == ("cmn", 1.0)
    assert scores.best() == ("ces", pytest.approx(1 / 12))
    assert scores.worst("lid") == ("cmn", 0.0)
    assert scores.best("lid") == ("ces", 0.5)
    assert scores.mean() == pytest.approx(13 / 24)
    assert scores.mean("lid") == 0.25
    assert scores.spread() == pytest.approx(statistics.stdev([1 / 12, 1.0]))
    assert scores.confusion == {"ces": {"ces": 1, "slk": 1}, "cmn": {"none": 1}}


def test_ml_superb2_averages_utterances_without_punctuation_and_some_without_spaces():
    scores = score(
        [
            utterance(1, "eng", "I'll go - now.", "ill go now", "eng"),  # ILL GO␣␣NOW, ILL GO NOW: 1 of 11
            utterance(2, "eng", "Yes", "no", "eng"),  # YES, NO: 3 of 3
            utterance(3, "eng", "...", "what", "deu"),  # left out
            utterance(4, "cmn", "我 想去，餐厅", "我想 去 餐", "cmn"),  # 1 of 5
        ],
        "ml-superb2",
    )
    assert scores.languages["eng"].cer == pytest.approx((1 / 11 + 1) / 2)
    assert scores.languages["eng"].lid == 1.0
    assert scores.languages["cmn"].cer == pytest.approx(1 / 5)
    assert scores.mean() == pytest.approx(((1 / 11 + 1) / 2 + 1 / 5) / 2)
    assert scores.languages["eng"].num_utterances == 3


def test_the_worst_fifteen_are_those_of_the_highest_rates():
    records = [utterance(n, f"l{n:02}", "a" * 20, "a" * (20 - n), None) for n in range(20)]
    scores = score(records, "ml-superb2")
    assert scores.worst_mean() == pytest.approx(statistics.fmean(n / 20 for n in range(5, 20)))
    assert scores.worst_mean(num_languages=2) == pytest.approx(37 / 40)
    assert score(records[:3], "ml-superb2").worst_mean() == pytest.approx(1 / 20)
    assert scores.summary()["worst_15_cer"] == scores.worst_mean()


def test_paper_counts_the_space_behind_the_language_token_and_rounds():
    scores = score(
        [
            utterance(1, "ces", "ab c", "ab d", "ces"),  # ␣AB␣C: 1 of 5, 20.0 %
            utterance(2, "ces", "ab", "b", "ces"),  # ␣AB, ␣B: 1 of 3, 33.3 %
            utterance(3, "ces", "ab", "ab", None),  # ␣AB, AB: 1 of 3, 33.3 %
            utterance(4, "ces", "abcdefg", "abcdefg [deu]", None),  # names a language: 0 of 8
        ],
        "paper",
    )
    assert scores.languages["ces"].cer == pytest.approx((5 * 0.2 + 3 * 0.333 + 3 * 0.333) / 19)
    assert scores.languages["ces"].lid == 0.5
    assert scores.confusion == {"ces": {"ces": 2, "deu": 1, "none": 1}}


def test_paper_rounds_halves_upwards():
    # ␣ and 15 characters: 5 of 16 are 31.25 %.
    assert score([utterance(1, "ces", "a" * 15, "a" * 10, "ces")], "paper").together.cer == pytest.approx(0.313)


def test_paper_prefers_insertions_and_deletions_where_sclite_does():
    # AAA in place: two deletions and two insertions cost 12. Otherwise four substitutions or more, 16.
    edits = count_as_sclite(["bcaaa"], ["aaabc"])
    assert (edits.substitutions[0], edits.deletions[0], edits.insertions[0]) == (0, 2, 2)
    assert count_as_sclite(["abd"], ["xyz"]).substitutions[0] == 3


@pytest.mark.parametrize("profile", PROFILES)
def test_all_profiles_take_empty_texts_marks_and_any_direction(profile):
    records = [
        utterance(1, "ces", "", "", None),
        utterance(2, "ces", "ahoj", "", "ces"),
        utterance(3, "heb", "שָׁלוֹם", "שלום", "heb"),
        utterance(4, "arb", "السلام عليكم", "السلام", "arb"),
        utterance(5, "fra", "e\u0301te\u0301", "été", "fra"),
        utterance(6, "tha", "", "ก็ได้", "tha"),
    ]
    scores = score(records, profile)
    assert scores.languages["tha"].cer is None
    assert scores.languages["tha"].wer is None
    assert 0 < scores.languages["heb"].cer < 1
    assert scores.languages["ces"].cer == 1.0
    assert scores.mean() == pytest.approx(statistics.fmean(scores.rates("cer").values()))
    assert len(scores.rates("cer")) == 4
    assert Scores.from_record(json.loads(json.dumps(scores.to_record()))) == scores


def test_composed_and_decomposed_characters_are_the_same_in_plain():
    text = "příliš žluťoučký kůň"
    assert score([utterance(1, "ces", text, unicodedata.normalize("NFD", text))]).together.cer == 0


def test_nothing_but_empty_references_has_no_rates():
    scores = score([utterance(1, "ces", "", "a"), utterance(2, "deu", "", "")], "ml-superb2")
    assert scores.worst() is scores.best() is scores.mean() is scores.spread() is scores.worst_mean() is None
    assert set(scores.summary().values()) == {None}
    assert Scores.from_record(scores.to_record()) == scores
    assert score([utterance(1)]).spread() is None


records = st.lists(
    st.tuples(st.sampled_from(["ces", "cmn", "tha"]), texts, texts, st.sampled_from([None, "ces", "cmn"])), min_size=1
).map(lambda rows: [utterance(n, lang, text, hyp, named) for n, (lang, text, hyp, named) in enumerate(rows)])


@given(records, st.sampled_from(sorted(PROFILES)))
def test_figures_hold_together(records, profile):
    counts = count(records, profile)
    scores = counts.scores()
    rates = scores.rates("cer")
    if rates:
        assert scores.best()[1] <= scores.mean() + 1e-12
        assert scores.mean() <= scores.worst_mean(num_languages=2) + 1e-12
        assert scores.worst_mean(num_languages=1) == scores.worst()[1]
        assert scores.worst()[1] == max(rates.values())
    assert sum(figures.num_utterances for figures in scores.languages.values()) == len(records)
    assert sum(sum(row.values()) for row in scores.confusion.values()) == len(records)
    assert sum(figures.characters.total for figures in scores.languages.values()) == scores.together.characters.total
    assert Scores.from_record(json.loads(json.dumps(scores.to_record(), allow_nan=False))) == scores


@given(records)
def test_plain_counts_as_the_textbook_on_clean_text(records):
    counts = count(records)
    expected = [edit_distance(clean(record.text), clean(record.hyp_text)) for record in records]
    assert np.array_equal(counts.characters.total, expected)


@given(records, st.randoms(use_true_random=False))
def test_the_order_of_utterances_does_not_matter(records, generator):
    shuffled = generator.sample(records, len(records))
    ours, theirs = score(records).summary(), score(shuffled).summary()
    assert ours == pytest.approx(theirs)


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ValueError, match="`profile` must be one of plain, ml-superb2, paper"):
        count([utterance(1)], "strict")
    with pytest.raises(ValueError, match="at least one utterance"):
        count([])
    with pytest.raises(ValueError, match="'u1' comes 2 times"):
        count([utterance(1), utterance(1)])


@pytest.mark.parametrize("record", [None, [], {}, {"profile": "plain"}, {"profile": "plain", "languages": {"ces": {}}}])
def test_records_of_something_else_are_refused(record):
    with pytest.raises(ValueError, match="not scores of this package"):
        Scores.from_record(record)


def test_scores_say_what_they_are_in_their_record():
    record = score([utterance(1), utterance(2, "deu", "hallo", "halo", "deu")]).to_record()
    assert record["profile"] == "plain"
    assert (record["worst_language"], record["best_language"]) == ("deu", "ces")
    assert record["summary"]["worst_cer"] == 0.2
    assert record["languages"]["deu"]["characters"] == {
        "substitutions": 0,
        "deletions": 1,
        "insertions": 0,
        "reference": 5,
    }


def test_the_profiles_of_the_command_line_are_all_there_are():
    from ctcdro.cli.score import ScoringProfile

    assert [profile.value for profile in ScoringProfile] == list(PROFILES)
    page = Path(__file__).parents[2] / "docs" / "scoring.md"
    assert all(f"`{name}`" in page.read_text(encoding="utf-8") for name in PROFILES)

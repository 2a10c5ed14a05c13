"""Edits agree with a textbook edit distance, with jiwer and with NIST's sclite."""

import random

import jiwer
import pytest
from edit_oracle import SCLITE, corrupt, edit_distance, random_texts, run_sclite
from hypothesis import given
from hypothesis import strategies as st

from ctcdro.scoring.edits import count_as_sclite, count_fewest


def count_words(references, hypotheses):
    return count_fewest([text.split() for text in references], [text.split() for text in hypotheses])


def test_counts_agree_with_the_textbook_in_many_scripts():
    references, hypotheses = zip(*random_texts(3000), strict=True)
    characters, words = count_fewest(references, hypotheses), count_words(references, hypotheses)
    for number, (reference, hypothesis) in enumerate(zip(references, hypotheses, strict=True)):
        assert characters.total[number] == edit_distance(reference, hypothesis)
        assert characters.reference[number] == len(reference)
        assert words.total[number] == edit_distance(reference.split(), hypothesis.split())
        assert words.reference[number] == len(reference.split())
        assert characters.insertions[number] - characters.deletions[number] == len(hypothesis) - len(reference)


def test_counts_are_those_of_jiwer():
    references, hypotheses = zip(*(pair for pair in random_texts(1000, seed=1) if pair[0]), strict=True)
    for ours, theirs in (
        (count_fewest(references, hypotheses), jiwer.process_characters(list(references), list(hypotheses))),
        (count_words(references, hypotheses), jiwer.process_words(list(references), list(hypotheses))),
    ):
        together = ours.sum(slice(None))
        assert together.substitutions == theirs.substitutions
        assert together.deletions == theirs.deletions
        assert together.insertions == theirs.insertions


texts = st.text(alphabet="ab c\u0301дש你", max_size=12).map(lambda text: " ".join(text.split()))


@given(texts, texts)
def test_edits_are_zero_only_of_equal_texts_and_bounded_by_the_longer(reference, hypothesis):
    total = int(count_fewest([reference], [hypothesis]).total[0])
    assert (total == 0) == (reference == hypothesis)
    assert abs(len(reference) - len(hypothesis)) <= total <= max(len(reference), len(hypothesis))
    assert total == count_fewest([hypothesis], [reference]).total[0]


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


def random_sequences(kind, number=500):
    generator = random.Random(2)
    alphabet = {
        "characters": ["<space>", *"ABCDEFGHČŘŽÝДШ你好吗שלום"],
        "words": ["AHOJ", "DEN", "DOBRÝ", "ŘEČ", "你好", "שלום", "МИР", "A", "NA", "ZA"],
    }[kind]
    for _ in range(number):
        reference = [generator.choice(alphabet) for _ in range(generator.randint(1, 30))]
        yield reference, corrupt(generator, reference, alphabet, generator.random() * 0.7)


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


def test_paper_prefers_insertions_and_deletions_where_sclite_does():
    # AAA in place: two deletions and two insertions cost 12. Otherwise four substitutions or more, 16.
    edits = count_as_sclite(["bcaaa"], ["aaabc"])
    assert (edits.substitutions[0], edits.deletions[0], edits.insertions[0]) == (0, 2, 2)
    assert count_as_sclite(["abd"], ["xyz"]).substitutions[0] == 3

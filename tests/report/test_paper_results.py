"""The paper's results are complete and consistent."""

import pytest

from ctcdro.prepare.readers.ml_superb_sets import SETS
from ctcdro.report.paper_results import find_set, paper_results, paper_tables_of

# The worst CER and its language in the paper's main tables, read independently of the tables by language.
WORST_CER = {
    "set1": "60.8 nan 86.6 nan 56.8 nan 64.9 cmn 78.4 nan 57.6 nan",
    "set2": "49.4 yue 55.5 yue 44.4 yue 68.8 yue 58.8 yue 45.0 yue",
    "set3": "34.2 kor 34.0 kor 31.3 khm 33.2 khm 38.0 khm 32.2 khm",
    "set4": "24.0 snd 21.8 urd 18.4 urd 29.7 urd 25.6 slv 24.2 urd",
    "set5": "90.0 jpn 62.2 jpn 57.5 jpn 114.8 jpn 92.9 jpn 71.5 jpn",
    "set1-extra": "67.5 nan 96.3 nan 62.8 nan 92.1 cmn 90.8 nan 67.5 nan",
    "set2-extra": "66.9 yue 105.4 yue 48.1 yue 97.2 yue 102.9 yue 51.4 yue",
}


def test_languages_are_those_of_the_set_and_means_are_theirs():
    for name, pairs in SETS.items():
        rows = paper_results(name)
        assert len(rows) == (4 if name.startswith("scale") else 6)
        assert paper_tables_of(name).startswith("tab:scale-test" if name == "scale18" else "tab:")
        for row in rows:
            assert set(row.cer) == {language for language, _ in pairs}
            assert sum(row.cer.values()) / len(row.cer) == pytest.approx(row.mean, abs=0.11)  # printed with one digit


def test_the_worst_languages_are_those_of_the_main_tables():
    for name, expected in WORST_CER.items():
        assert " ".join(f"{row.worst[1]} {row.worst[0]}" for row in paper_results(name)) == expected


def test_an_encoder_of_the_paper_has_its_own_rows_and_others_have_all():
    assert {row.model for row in paper_results("set1", "facebook/mms-300m")} == {"MMS"}
    assert {row.model for row in paper_results("set1", "mel-small")} == {"MMS", "XLS-R"}


def test_step_size_and_smoothing_are_there_where_they_are_used():
    for name in SETS:
        for row in paper_results(name):
            assert (row.step_size is None) == (row.objective == "erm")
            assert (row.smoothing is None) == (row.objective != "ctc-dro")


def test_a_part_of_a_set_is_not_the_set():
    assert find_set(SETS["set3"]) == "set3"
    assert find_set(SETS["set1"][:-1]) is None
    assert find_set([]) is None

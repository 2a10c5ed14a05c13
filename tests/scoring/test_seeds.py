"""Means over seeds and paired t-tests agree with published figures."""

import pytest

from ctcdro.scoring.scores import score
from ctcdro.scoring.seeds import mean_over_runs, over_runs, paired_t_test
from ctcdro.scoring.transcripts import Prediction


def test_the_t_test_is_that_of_students_own_sleep_data():
    """Gosset (1908): hours of sleep gained by ten patients under two drugs; t = 4.06 of 9 degrees, p = 0.0028."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = paired_t_test(first, second)
    assert (found.t, found.degrees) == (pytest.approx(4.0621, abs=1e-4), 9)
    assert found.p_value == pytest.approx(0.002833, abs=1e-6)
    assert found.value == pytest.approx(1.58)
    assert (found.low, found.high) == (pytest.approx(0.7001, abs=1e-4), pytest.approx(2.4599, abs=1e-4))


def test_equal_differences_have_no_chance_in_them():
    none, same = paired_t_test([1.0, 2.0], [1.0, 2.0]), paired_t_test([1.0, 2.0], [2.0, 3.0])
    assert (none.t, none.p_value) == (0.0, 1.0)
    assert (same.t, same.p_value, same.low, same.high) == (None, 0.0, 1.0, 1.0)
    assert paired_t_test([0.1, 0.3], [0.2, 0.4]).t is None  # 0.1 and 0.10000000000000003


@pytest.mark.parametrize(("first", "second"), [([1.0], [2.0]), ([1.0, 2.0], [1.0]), ([], [])])
def test_pairs_must_be_pairs(first, second):
    with pytest.raises(ValueError, match="must have two or more pairs"):
        paired_t_test(first, second)


def test_runs_have_means_and_deviations():
    def run(text, profile="plain"):
        records = [Prediction("a", "ces", "ahoj", "ces", text), Prediction("b", "deu", "ja", "deu", "ja")]
        return score(records, profile)

    found = over_runs([run("ahoj"), run("aho"), run("ah")])
    assert found["worst_cer"].mean == 0.25
    assert found["worst_cer"].deviation == 0.25
    assert found["mean_cer"].num_runs == 3
    assert over_runs([run("aho")])["worst_cer"].deviation is None
    assert mean_over_runs([0.25, None]) is mean_over_runs([]) is None
    assert "spread_cer" not in over_runs([score([Prediction("a", "ces", "ahoj", "ces", "ahoj")])])
    with pytest.raises(ValueError, match="one scoring profile; got paper, plain"):
        over_runs([run("ahoj"), run("ahoj", "paper")])
    with pytest.raises(ValueError, match="got no runs"):
        over_runs([])

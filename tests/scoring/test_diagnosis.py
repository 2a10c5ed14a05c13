"""The diagnosis of a run: its file, and its words."""

import json
from dataclasses import replace

import pytest

from ctcdro.scoring.diagnosis import Diagnosis, LanguageDiagnosis, describe, read_diagnosis
from ctcdro.scoring.verdicts import VERDICTS
from ctcdro.storage.json_files import write_json

OVERFIT = LanguageDiagnosis(["overfit"], 0.021, 0.487, 0.1, 0.5, 5.4, 0.2, 0.3, 10.0, 3.3, 60, 1, ["k7"])
UNDERFIT = replace(OVERFIT, verdicts=["underfit"], train_cer=0.2, dev_cer=0.25, num_suspicious=0, suspicious=[])


def test_a_diagnosis_is_read_as_it_was_written(tmp_path):
    diagnosis = Diagnosis(300, 400, {"kor": OVERFIT, "ces": replace(UNDERFIT, final_weight=None)})
    write_json(tmp_path / "diagnosis.json", diagnosis.to_record())
    assert read_diagnosis(tmp_path / "diagnosis.json") == diagnosis
    assert read_diagnosis(tmp_path / "none.json") is None


@pytest.mark.parametrize(
    "damage",
    [
        {"languages": []},
        {"languages": {"kor": {}}},
        {"step": "first"},
        {"languages": {"kor": {**vars(OVERFIT), "verdicts": ["bad luck"]}}},
        {"languages": {"kor": {**vars(OVERFIT), "train_cer": "low"}}},
        {"languages": {"kor": {**vars(OVERFIT), "suspicious": [1]}}},
    ],
)
def test_a_damaged_file_is_named(tmp_path, damage):
    path = tmp_path / "diagnosis.json"
    path.write_text(json.dumps(Diagnosis(3, 4, {"kor": OVERFIT}).to_record() | damage))
    with pytest.raises(ValueError, match=r"diagnosis\.json: not a diagnosis written by ctcdro"):
        read_diagnosis(path)


def test_the_worst_language_comes_first_and_every_verdict_names_its_languages():
    first, overfit, underfit = describe(Diagnosis(400, 400, {"ces": UNDERFIT, "kor": OVERFIT}))
    assert first == "Worst language: Korean (kor), overfit. CER 2.1% on training data, 48.7% on dev."
    assert overfit.startswith("Overfit: Korean (kor). ")
    assert "More weight will not help." in overfit
    assert underfit.startswith("Underfit: Czech (ces). ")
    assert "longer training" in underfit
    assert "longer training alone will not help" not in underfit


def test_longer_training_is_not_recommended_if_an_earlier_model_was_better():
    *_, underfit = describe(Diagnosis(300, 400, {"ces": UNDERFIT}))
    assert underfit.endswith("The selected model is from step 300 of 400: longer training alone will not help.")


def test_suspicious_utterances_are_listed_by_id():
    wrong = replace(OVERFIT, verdicts=["label-errors", "overfit"], num_suspicious=12, suspicious=["k7", "k2"])
    first, contradictory, _ = describe(Diagnosis(1, 1, {"kor": wrong}))
    assert "Korean (kor), label errors and overfit." in first
    assert contradictory.endswith("Suspicious are 12 of 60 utterances in Korean (kor), most of all k7, k2.")


def test_many_languages_are_counted():
    *_, underfit = describe(Diagnosis(1, 1, {f"x{number}": UNDERFIT for number in range(25)}))
    assert "x9 and 15 more. " in underfit


def test_languages_without_development_data_are_not_described():
    assert describe(Diagnosis(1, 1, {"kor": replace(OVERFIT, dev_cer=None, verdicts=[])})) == []


def test_every_verdict_but_a_good_fit_has_advice():
    assert all(verdict.title and verdict.meaning for verdict in VERDICTS.values())
    assert {name for name, verdict in VERDICTS.items() if not verdict.advice.endswith(".")} == {"good-fit"}

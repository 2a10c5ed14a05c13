"""ML-SUPERB 2.0: the paper's sets, reserved languages, limits, and its copy for `datasets`."""

from pathlib import Path

import pytest
from layouts import SPLITS, MLSuperb, Spoken, write_lines

from ctcdro.prepare.prepare import prepare
from ctcdro.prepare.readers.ml_superb import find_pairs, read_ml_superb, read_ml_superb_copy
from ctcdro.prepare.readers.ml_superb_sets import FEW_SHOT, SETS, parse_pairs

CV, FLEURS, MSD, VF, VP, MLS = "commonvoice", "fleurs", "M-AILABS", "voxforge", "voxpopuli", "mls"

# As printed in the tables of the paper's appendix, row by row.
PRINTED = {
    "set1": {("ces", CV), ("cmn", FLEURS), ("nan", CV), ("pol", MSD), ("ron", FLEURS), ("spa", VF)},
    "set2": {("yue", FLEURS), ("hrv", FLEURS), ("eng", "LAD"), ("ita", FLEURS), ("fas", CV), ("slk", FLEURS)},
    "set3": {("khm", FLEURS), ("kor", FLEURS), ("kmr", CV), ("nno", CV), ("nbl", "nchlt"), ("tat", CV)},
    "set4": {("snd", FLEURS), ("slv", CV), ("sot", "googlei18n"), ("spa", MSD), ("urd", FLEURS), ("mrj", CV)},
    "set5": {("eng", VF), ("deu", VF), ("heb", FLEURS), ("jpn", FLEURS), ("rus", FLEURS), ("spa", FLEURS)},
    "set1-extra": {
        *[("ces", corpus) for corpus in (CV, FLEURS, VP)],
        *[("cmn", corpus) for corpus in (CV, FLEURS)],
        ("nan", CV),
        *[("pol", corpus) for corpus in (CV, FLEURS, MSD, MLS, VP)],
        *[("ron", corpus) for corpus in (CV, FLEURS, VP)],
        *[("spa", corpus) for corpus in (CV, FLEURS, MSD, MLS, VF, VP)],
    },
    "set2-extra": {
        *[("yue", corpus) for corpus in (CV, FLEURS)],
        *[("hrv", corpus) for corpus in (FLEURS, VP)],
        *[("ita", corpus) for corpus in (CV, FLEURS, "LAD", MSD, MLS, "nchlt", "swc", VF, VP)],
        *[("eng", corpus) for corpus in (CV, FLEURS, MSD, MLS, VF, VP)],
        *[("fas", corpus) for corpus in (CV, FLEURS)],
        *[("slk", corpus) for corpus in (CV, FLEURS, VP)],
    },
    "scale18": {
        *[("bak", CV), ("mya", FLEURS), ("cmn", CV), ("nan", CV), ("yue", CV), ("ces", CV), ("eng", "LAD")],
        *[("fra", MLS), ("deu", VF), ("grn", CV), ("ita", FLEURS), ("khm", FLEURS), ("fas", CV), ("pol", MSD)],
        *[("ron", FLEURS), ("rus", "LAD"), ("spa", VF), ("ssw", "nchlt")],
    },
    "scale18-extra": {
        *[("bak", CV), ("mya", FLEURS), ("nan", CV), ("grn", CV), ("khm", FLEURS), ("ssw", "nchlt")],
        *[(language, corpus) for language in ("yue", "cmn", "fas") for corpus in (CV, FLEURS)],
        *[(language, corpus) for language in ("ces", "ron") for corpus in (CV, FLEURS, VP)],
        *[("eng", corpus) for corpus in (CV, FLEURS, "LAD", MSD, MLS, "nchlt", "swc", VF, VP)],
        *[("fra", corpus) for corpus in (CV, FLEURS, MSD, MLS, VF, VP)],
        *[("deu", corpus) for corpus in (CV, FLEURS, MSD, MLS, "swc", VF, VP)],
        *[("ita", corpus) for corpus in (CV, FLEURS, MSD, VF, VP)],
        *[("pol", corpus) for corpus in (CV, FLEURS, MSD, MLS, VP)],
        *[("rus", corpus) for corpus in (CV, FLEURS, "LAD", MSD, VF)],
        *[("spa", corpus) for corpus in (CV, FLEURS, MSD, MLS, VF, VP)],
    },
}


def write(root, *several):
    """A corpus of (language, corpus, ids of training utterances)."""
    for lang, corpus, ids in several:
        prefix = {CV: "cv"}.get(corpus, corpus)
        others = [Spoken(split, lang, f"{prefix}_{lang}_{split}", f"ahoj {split}") for split in ("dev", "test")]
        spoken = [Spoken("train", lang, id, f"slovo {id[-1]}") for id in ids]
        MLSuperb().write(root, [*spoken, *others], corpus=corpus)


def test_named_sets_are_those_of_the_papers_tables():
    assert {name: sorted(pairs) for name, pairs in SETS.items()} == {
        name: sorted(pairs) for name, pairs in PRINTED.items()
    }
    for name, pairs in SETS.items():
        assert len({language for language, _ in pairs}) == (18 if name.startswith("scale18") else 6)


def test_twenty_languages_are_reserved_with_five_utterances_each():
    assert len(FEW_SHOT) == 20
    assert all(len(ids) == 5 for ids in FEW_SHOT.values())
    assert "voxpopuli_lit_001707" in FEW_SHOT["lit"]
    assert not {language for pairs in SETS.values() for language, _ in pairs} & set(FEW_SHOT)


def test_malformed_pairs_are_rejected():
    for text in ("ces", "ces:", ":fleurs", "ces:cv,,", ""):
        with pytest.raises(ValueError, match="--pairs must look like"):
            parse_pairs(text)


def test_two_corpora_of_one_language_are_both_read_and_distinguished(tmp_path):
    write(tmp_path, ("ces", CV, ["cv_ces_1"]), ("ces", FLEURS, ["fleurs_ces_1", "fleurs_ces_2"]))
    done = prepare(read_ml_superb(tmp_path, parse_pairs(f"ces:{CV},ces:{FLEURS}")), tmp_path / "out", {})
    assert [one.corpus for one in done.manifests["train"]] == [CV, FLEURS, FLEURS]
    assert done.manifests["train"].groups("lang,corpus").names == ["ces/commonvoice", "ces/fleurs"]


def test_googlei18n_is_whichever_folder_has_the_language(tmp_path):
    write(tmp_path, ("sot", "googlei18n_tts", ["a"]), ("sun", "googlei18n_asr", ["b"]))
    found = list(read_ml_superb(tmp_path, [("sot", "googlei18n"), ("sun", "googlei18n")], reserved="all"))
    assert {(one.lang, one.corpus) for one in found} == {("sot", "googlei18n_tts"), ("sun", "googlei18n_asr")}


def test_japanese_in_another_folder_is_japanese(tmp_path):
    write(tmp_path, ("org_jpn", FLEURS, ["fleurs_jpn_1"]))
    assert find_pairs(tmp_path) == (("jpn", FLEURS),)
    write(tmp_path, ("jpn", FLEURS, ["fleurs_jpn_2"]))
    assert find_pairs(tmp_path) == (("jpn", FLEURS),)
    assert next(read_ml_superb(tmp_path, [("jpn", FLEURS)])).id == "fleurs_jpn_2"
    assert {one.lang for one in read_ml_superb(tmp_path, [("jpn", FLEURS)])} == {"jpn"}


@pytest.mark.parametrize(("reserved", "number"), [("few-shot", 1), ("all", 2), ("none", 0)])
def test_of_reserved_languages_the_chosen_utterances_are_for_training(tmp_path, reserved, number):
    write(tmp_path, ("lit", CV, ["cv_lit_000026", "cv_lit_000027"]))
    found = list(read_ml_superb(tmp_path, [("lit", CV)], reserved=reserved))
    assert [one.split for one in found].count("train") == number
    assert {one.split for one in found} >= {"dev", "test"}


def test_long_utterances_are_dropped_from_training_and_dev_but_not_from_test(tmp_path):
    spoken = [Spoken(split, "ces", f"cv_ces_{split}", "ahoj", seconds=20.5) for split in SPLITS]
    spoken += [Spoken("train", "ces", "cv_ces_short", "ahoj", seconds=20.0)]
    MLSuperb().write(tmp_path, spoken)
    done = prepare(
        read_ml_superb(tmp_path, [("ces", CV)]),
        tmp_path / "out",
        {},
        max_duration={"train": 20.0, "dev": 20.0},
        strict=True,
    )
    assert [one.id for one in done.manifests["train"]] == ["cv_ces_short"]
    assert [(one.split, one.reason) for one in done.dropped] == [("train", "too long"), ("dev", "too long")]
    assert "dev" not in done.manifests
    assert len(done.manifests["test"]) == 1


def test_the_ten_minute_training_set_is_another_file(tmp_path):
    write(tmp_path, ("ces", CV, ["cv_ces_1"]))
    with pytest.raises(ValueError, match=r"transcript_10min_train\.txt: no such file"):
        list(read_ml_superb(tmp_path, [("ces", CV)], train="10min"))
    write_lines(tmp_path / CV / "ces" / "transcript_10min_train.txt", ["cv_ces_1 A řeč"])
    assert next(iter(read_ml_superb(tmp_path, [("ces", CV)], train="10min"))).text == "řeč"


def test_a_pair_that_is_not_on_disk_is_named_with_those_that_are(tmp_path):
    write(tmp_path, ("ces", CV, ["cv_ces_1"]))
    with pytest.raises(ValueError, match=r"ces:fleurs \(found for ces: ces:commonvoice\)"):
        list(read_ml_superb(tmp_path, [("ces", CV), ("ces", FLEURS)]))
    missing, *found = read_ml_superb(tmp_path, [("ces", FLEURS), ("ces", CV)], skip_missing=True)
    assert (missing.reason, missing.detail) == ("missing corpus", "ces:fleurs")
    assert {one.corpus for one in found} == {CV}
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no corpora found"):
        list(read_ml_superb(tmp_path / "empty", [("ces", CV)]))


def test_the_profile_of_the_paper_keeps_what_its_authors_keep(tmp_path):
    MLSuperb().write(
        tmp_path, [Spoken("train", "ces", "cv_ces_1", "«Dobrý den», [x] řekl."), Spoken("dev", "ces", "d", "a")]
    )
    done = prepare(read_ml_superb(tmp_path, [("ces", CV)]), tmp_path / "out", {}, text_norm="paper")
    assert done.manifests["train"][0].text == "«DOBRÝ DEN» ŘEKL"


def test_the_copy_for_datasets_gives_the_same(tmp_path):
    import datasets

    disk = tmp_path / "disk"
    write(
        disk, ("ces", CV, ["cv_ces_1", "cv_ces_2"]), ("cmn", FLEURS, ["fleurs_cmn_1"]), ("lit", CV, ["cv_lit_000026"])
    )
    write(disk, ("lit", FLEURS, ["fleurs_lit_000001"]), ("org_jpn", FLEURS, ["fleurs_jpn_1"]))
    parts = {}
    for split in SPLITS:
        rows = []
        for one in read_ml_superb(disk, find_pairs(disk), reserved="all"):
            code = "org_jpn" if one.lang == "jpn" else one.lang
            audio = {"bytes": Path(one.audio).read_bytes(), "path": None}
            row = {"id": one.id, "audio": audio, "text": f"[{code}] {one.text}", "language": code}
            rows += [row] if one.split == split else []
        parts[split] = datasets.Dataset.from_list(rows).cast_column("audio", datasets.Audio())
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "copy"))

    pairs = [("ces", CV), ("jpn", FLEURS), ("lit", CV), ("lit", FLEURS)]
    ours = prepare(read_ml_superb(disk, pairs), tmp_path / "ours", {})
    copied = prepare(read_ml_superb_copy(str(tmp_path / "copy"), tmp_path / "copied", pairs), tmp_path / "copied", {})

    def comparable(manifest):
        return sorted((one.id, one.text, one.lang, one.corpus, one.duration) for one in manifest)

    def audio(manifest):
        return {one.id: Path(one.audio_filepath).read_bytes() for one in manifest}

    for split in SPLITS:
        assert comparable(ours.manifests[split]) == comparable(copied.manifests[split]) != []
        assert audio(ours.manifests[split]) == audio(copied.manifests[split])
    assert not list((tmp_path / "copied").rglob("*cmn*")), "audio that nobody asked for was written"
    with pytest.raises(ValueError, match="no data for ces:fleurs"):
        list(read_ml_superb_copy(str(tmp_path / "copy"), tmp_path / "copied", [("ces", CV), ("ces", FLEURS)]))

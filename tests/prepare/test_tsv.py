"""Common Voice and FLEURS: languages by folder, old and odd tables."""

import pytest
from layouts import SPLITS, CommonVoice, Fleurs, Spoken, write_lines

from ctcdro.prepare.language_codes import language_code
from ctcdro.prepare.prepare import prepare
from ctcdro.prepare.readers.common_voice import read_common_voice
from ctcdro.prepare.readers.fleurs import read_fleurs

SPOKEN = [Spoken(split, lang, f"{lang}_{split}", "Řeč") for split in SPLITS for lang in ("ces", "cmn")]


CODES = {
    "cs": "ces",
    "zh-CN": "cmn",
    "zh-HK": "yue",
    "cmn_hans_cn": "cmn",
    "nn-NO": "nno",
    "sw_ke": "swa",
    "ces": "ces",
    "hsb": "hsb",
}


def test_tags_become_iso_639_3_codes():
    assert {tag: language_code(tag) for tag in CODES} == CODES


def test_tags_of_no_language_are_rejected():
    for tag in ("english", "x", "", "12", "clips"):
        with pytest.raises(ValueError, match="must begin with an ISO 639 language code"):
            language_code(tag)


@pytest.mark.parametrize(("layout", "read"), [(CommonVoice(), read_common_voice), (Fleurs(), read_fleurs)])
def test_languages_can_be_chosen_by_code_or_folder(layout, read, tmp_path):
    layout.write(tmp_path, SPOKEN)
    folder = next(path for path in tmp_path.iterdir() if path.name.startswith("cs"))
    for chosen in (["ces"], [folder.name]):
        assert {one.lang for one in read(tmp_path, chosen)} == {"ces"}
    assert {one.lang for one in read(folder)} == {"ces"}, "the folder of one language"
    with pytest.raises(ValueError, match=r"no swe \(found: (ces, cmn|cmn, ces)\)"):
        list(read(tmp_path, ["swe"]))
    with pytest.raises(ValueError, match=r"no train\.tsv in this folder or one below it"):
        list(read(tmp_path / "nowhere"))


@pytest.mark.parametrize(("layout", "read"), [(CommonVoice(), read_common_voice), (Fleurs(), read_fleurs)])
def test_folders_that_nobody_asked_for_do_not_matter(layout, read, tmp_path):
    layout.write(tmp_path, SPOKEN)
    write_lines(tmp_path / "backup" / "train.tsv", ["x"])
    assert {one.lang for one in read(tmp_path, ["ces"])} == {"ces"}
    with pytest.raises(ValueError, match="backup: the folder name must be a language code"):
        list(read(tmp_path))


@pytest.mark.parametrize(("layout", "read"), [(CommonVoice(), read_common_voice), (Fleurs(), read_fleurs)])
def test_a_missing_table_is_named(layout, read, tmp_path):
    layout.write(tmp_path, SPOKEN)
    next(tmp_path.glob("cs*/test.tsv")).unlink()
    with pytest.raises(ValueError, match=r"test\.tsv: no such file"):
        list(read(tmp_path))


def test_a_table_of_other_columns_is_rejected(tmp_path):
    write_lines(tmp_path / "cs" / "train.tsv", ["id\ttext", "1\tahoj"])
    with pytest.raises(ValueError, match=r"train\.tsv:2: expected columns `path` and `sentence`; got id, text"):
        list(read_common_voice(tmp_path))


def test_quotation_marks_in_tables_are_part_of_the_text(tmp_path):
    CommonVoice().write(tmp_path, [Spoken(split, "ces", f"c_{split}", 'řekl: "ahoj') for split in SPLITS])
    assert {one.text for one in read_common_voice(tmp_path)} == {'řekl: "ahoj'}


def test_clips_of_old_releases_have_no_suffix(tmp_path):
    CommonVoice().write(tmp_path, SPOKEN)
    for path in tmp_path.glob("*/*.tsv"):
        path.write_text(path.read_text(encoding="utf-8").replace(".mp3", ""), encoding="utf-8")
    done = prepare(read_common_voice(tmp_path), tmp_path / "out", {})
    assert done.dropped == []
    assert done.manifests["train"][0].speaker == "speaker"


def test_fleurs_from_the_hub_has_its_languages_in_a_folder(tmp_path):
    Fleurs().write(tmp_path / "languages", SPOKEN)
    Fleurs().write(tmp_path / "download" / "data", SPOKEN)
    expected = prepare(read_fleurs(tmp_path / "languages"), tmp_path / "one", {}).statistics
    assert prepare(read_fleurs(tmp_path / "download"), tmp_path / "two", {}).statistics == expected
    assert set(expected) == set(SPLITS)


def test_audio_of_fleurs_that_is_not_unpacked_is_named(tmp_path):
    Fleurs().write(tmp_path, SPOKEN)
    (tmp_path / "cs_cz" / "audio" / "dev").rename(tmp_path / "cs_cz" / "audio" / "away")
    with pytest.raises(ValueError, match=r"Unpack dev\.tar\.gz"):
        list(read_fleurs(tmp_path))
    (tmp_path / "cs_cz" / "audio" / "away").rename(tmp_path / "cs_cz" / "dev")
    assert prepare(read_fleurs(tmp_path), tmp_path / "out", {}).dropped == []


def test_files_of_one_name_in_two_languages_stay_two_utterances(tmp_path):
    Fleurs().write(tmp_path, [Spoken(split, lang, "1234", "a") for split in SPLITS for lang in ("ces", "cmn")])
    done = prepare(read_fleurs(tmp_path), tmp_path / "out", {})
    assert {one.id for one in done.manifests["train"]} == {"ces_1234", "cmn_1234"}
    assert done.dropped == []


def test_a_duplicate_id_is_dropped_and_named(tmp_path):
    Fleurs().write(tmp_path, [*SPOKEN, SPOKEN[0]])
    done = prepare(read_fleurs(tmp_path), tmp_path / "out", {})
    assert [(one.reason, one.where.rpartition(":")[2]) for one in done.dropped] == [("duplicate id", "2")]

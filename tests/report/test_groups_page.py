"""The page about groups found in the data: self-contained, with links from the map to examples, and escaped texts."""

import re
from dataclasses import replace

import numpy as np
import pytest
from tones import write_dataset

from ctcdro import Manifest
from ctcdro.grouping.description import FoundGroups, GroupMap, GroupSummary
from ctcdro.report.groups_page import write_groups_page
from ctcdro.report.tables.groups import groups_table


@pytest.fixture
def found(tmp_path):
    train = Manifest.read(write_dataset(tmp_path / "data", num_train=6, num_dev=1) / "train.jsonl")
    train = Manifest(replace(one, text=f"<b>{one.text}", speaker="<i>") for one in train)
    groups = [
        GroupSummary(f"group-{number}", 6, 0.1, 2.0, 20.0, None, {"lang": [("aaa", 0.5), ("bbb", 0.5)]}, examples)
        for number, examples in ((1, [0, 3]), (2, [6, 7, 11]))
    ]
    positions = np.random.default_rng(0).standard_normal((12, 2))
    drawn = GroupMap(positions, np.arange(12), np.repeat([0, 1], 6))
    return FoundGroups(train, groups, {2: 0.4, 3: 0.1}, {"lang": 0.25}, drawn)


def test_every_number_on_the_map_links_to_an_example_with_audio(found, tmp_path):
    write_groups_page(found, tmp_path / "groups.html")
    page = (tmp_path / "groups.html").read_text()
    links = re.findall(r'xlink:href="#(example-\d+)"', page)
    assert links == [f"example-{number}" for number in range(1, 6)]
    for link in links:
        assert re.search(rf'<li id="{link}">.*?src="data:audio/mpeg;base64,', page, flags=re.DOTALL)
    assert page.count("<audio ") == 5


def test_the_page_needs_no_network_and_escapes_texts(found, tmp_path):
    write_groups_page(found, tmp_path / "groups.html", audio=False)
    page = (tmp_path / "groups.html").read_text()
    assert "<audio " not in page
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "speaker &lt;i&gt;" in page
    assert not re.search(r'(src|href)="https?:', page.replace("http://www.w3.org", ""))
    assert "2 groups have the highest silhouette (2: 0.40, 3: 0.10)" in page


def test_the_same_groups_give_the_same_page(found, tmp_path):
    for name in ("first", "second"):
        write_groups_page(found, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_the_table_has_no_losses_without_a_run(found):
    assert "loss per character" not in [column.name for column in groups_table(found).columns]
    with_loss = replace(found, groups=[replace(group, loss=1.5) for group in found.groups])
    assert "loss per character" in [column.name for column in groups_table(with_loss).columns]

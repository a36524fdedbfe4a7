"""Every item of the paper is there, and is found by its names."""

import pytest

from repri.experiments.items import ITEMS, find_items
from repri.experiments.published import published, published_names
from repri.runtime.errors import RepriError


def test_names_are_unique_and_every_published_table_has_an_item():
    aliases = [item.alias for item in ITEMS.values()]
    assert len(set(aliases)) == len(aliases)
    assert {item.paper for item in ITEMS.values() if item.paper} == set(published_names())
    for item in ITEMS.values():
        if item.paper:
            assert published(item.paper).data == item.data


def test_rows_of_the_paper_are_called_as_in_the_paper():
    for item in ITEMS.values():
        names = {row["method"] for row in published(item.paper).rows} if item.paper else set()
        ours = {way.name for way in item.ways}
        assert not item.paper or len(names & ours) >= min(3, len(names)), item.name


def test_names_are_found_and_others_are_an_error():
    assert [item.name for item in find_items(["t_pi", "pascal"])] == ["table1", "figure2"]
    everything = [item.name for item in find_items(["all"])]
    assert {"table1", "table9-coco", "figure1", "figure4", "rules"} <= set(everything)
    assert "choose-bias" not in everything
    with pytest.raises(RepriError, match="no item named 'tabel1', did you mean 'table1'"):
        find_items(["tabel1"])

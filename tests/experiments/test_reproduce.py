"""Every item of a quick run has its files, with the facts that each output must name."""

import csv

import pytest
from PIL import Image

from repri.experiments.items import ITEMS, find_items
from repri.experiments.reproduce import produce, work_of

TABLES = ("folds", "shots", "curve", "box", "speed")
DRAWN = ("folds", "shots", "curve", "box", "maps", "panels")


@pytest.mark.parametrize("name", [item.name for item in find_items(["all"]) if item.name != "rules"])
def test_files_of_an_item(quick, name):
    item, files = ITEMS[name], quick.outputs[name].files
    suffixes = [".md", ".csv", ".tex"] * (item.kind in TABLES) + [".png", ".svg"] * (item.kind in DRAWN)
    assert [path.suffix for path in files] == suffixes
    assert all(path.stat().st_size > 100 for path in files)
    for path in files:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert min(image.size) > 200
        if path.suffix == ".md":
            text = path.read_text()
            for fact in ("generated scenes", "protocol: clean", "extractor: filters", "budget: quick", "tasks: 1×4"):
                assert fact in text


def test_tables_have_a_row_for_each_way_that_can_be_computed(quick):
    for name in ("table1", "table3", "table5", "table6", "figure2", "figure3b"):
        item, table = ITEMS[name], quick.outputs[name].table
        ways = [way for way in item.ways_of("quick") if quick.lab.why_not(way) is None]
        measured = [label for label, values in table.rows if any(getattr(x, "ours", None) is not None for x in values)]
        assert len(measured) == len(ways) * (len(item.shots) if item.kind == "folds" else 1), name
    with open(quick.folder / "table1.csv") as file:
        rows = list(csv.DictReader(file))
    assert {"RePRI, 1 shot", "Oracle-RePRI, 5 shots", "OSLSM (VGG-16), 1 shot"} <= {row["row"] for row in rows}
    assert len({row["column"] for row in rows}) == 5


def test_items_share_cells(quick):
    """CE + H + KL of the ablation is RePRI of the main table, so it is not missing any more."""
    assert len(quick.works["table5"].missing) == 8
    assert len(quick.works["table5"].cells) == 12
    assert not quick.works["table2"].missing  # on generated data it has the cells of table1


def test_rules_without_networks_are_left_out_with_a_sentence(quick):
    work = quick.works["rules"]
    assert not work.possible
    assert all("is left out" in sentence for sentence in work.left_out)


def test_a_second_run_computes_nothing_and_writes_the_same_bytes(quick, lab_of, tmp_path):
    lab = lab_of(quick.folder / "cells")
    for name in ("table5", "figure2"):
        work = work_of(lab, ITEMS[name])
        assert not work.missing
        out = produce(lab, work, tmp_path)
        for path in out.files:
            assert path.read_bytes() == (quick.folder / path.name).read_bytes()


def test_without_data_images_and_speed_are_left_out(quick, lab_of, tmp_path):
    from repri.experiments.lab import Lab
    from repri.experiments.settings import ReproduceSettings
    from repri.experiments.store import CellStore

    lab = Lab(ReproduceSettings("here", folds=(0,)), CellStore(tmp_path))
    maps, ablation = work_of(lab, ITEMS["figure1"]), work_of(lab, ITEMS["table5"])
    assert "needs images, which --root names" in maps.left_out[0]
    assert "6 of 6 cells have no kept result" in ablation.left_out[0]
    assert not ablation.possible

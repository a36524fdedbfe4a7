"""Cells that are kept."""

import torch

from repri.web.cells import Cells, Recent


def equal(a, b):
    return torch.equal(a.features, b.features) and torch.equal(a.white, b.white) and torch.equal(a.valid, b.valid)


def test_kept_cells_are_those_of_a_look(project, session):
    id, look = next(iter(project.images)), session.look
    cells = Cells(project)
    assert not cells.has(id, look)
    wanted = look.see(project.pixels(id))
    assert equal(cells.get(id, look), wanted)
    assert Cells(project).has(id, look)
    assert equal(Cells(project).get(id, look), wanted)


def test_a_damaged_file_is_computed_again(project, session):
    id, look = next(iter(project.images)), session.look
    wanted = Cells(project).get(id, look)
    (file,) = (project.folder / ".repri" / "cells").iterdir()
    file.write_bytes(file.read_bytes()[:100])
    assert equal(Cells(project).get(id, look), wanted)
    assert file.stat().st_size > 100


def test_a_changed_image_is_looked_at_again(project, session, scenes):
    from PIL import Image

    id, look = next(iter(project.images)), session.look
    before = Cells(project).get(id, look)
    Image.fromarray(scenes[0][0]).save(project.images[id].path)
    assert not equal(Cells(project).get(id, look), before)


def test_the_last_values_stay():
    recent = Recent(10, len)
    for key in "abc":
        recent[key] = key * 4
        recent.get("a")
    assert [recent.get(key) for key in "abc"] == ["aaaa", None, "cccc"]
    recent["a"] = "a" * 100
    assert (recent.get("a"), recent.get("c")) == ("a" * 100, None)
    recent.forget("a")
    assert recent.get("a") is None

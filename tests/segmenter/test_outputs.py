"""A folder of results."""

import csv
import os

import numpy as np
import pytest
from PIL import Image

from repri import RepriError, Segmentation
from repri.data import read_annotated, read_mask
from repri.segmenter.outputs import Results, unwritable
from repri.segmenter.resume import query_file
from tests.make import noise, square


def made(source, confidence=0.9, classes=("cat",), seed=0):
    mask = square()
    mask[30:, 40:] = len(classes)
    probabilities = {name: np.where(mask == n, 0.9, 0.1).astype(np.float32) for n, name in enumerate(classes, 1)}
    figures = dict.fromkeys(classes, 0.25), dict.fromkeys(classes, 0.75)
    return Segmentation(str(source), noise(seed=seed), mask, probabilities, figures[0], confidence, figures[1])


@pytest.fixture
def queries(tmp_path):
    """Three image files by name."""
    files = {name: tmp_path / "query" / f"{name}.png" for name in ("a", "b", "d/c")}
    for n, path in enumerate(files.values()):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(seed=n)).save(path)
    return files


def test_everything_about_an_image_is_written(tmp_path):
    results = Results(tmp_path, ("cat", "sea/dog"), probabilities=True, overlays=True)
    results.write("folder/x", made("x.png", classes=results.classes))
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {
        "masks/folder/x.png",
        "overlays/folder/x.jpg",
        "thumbnails/folder/x.jpg",
        "probabilities/folder/x.cat.png",
        "probabilities/folder/x.sea_dog.png",
    }
    with Image.open(tmp_path / "probabilities/folder/x.cat.png") as image:
        assert np.asarray(image).dtype == np.uint16
        assert np.asarray(image).max() == round(0.9 * 65535)
    assert set(np.unique(read_mask(tmp_path / "masks/folder/x.png"))) == {0, 1, 2}


def test_the_summary_is_made_from_the_masks_on_disk(tmp_path, queries):
    results = Results(tmp_path / "out", ("cat",))
    for n, (name, path) in enumerate(queries.items()):
        results.write(name, made(path, 0.9 - 0.1 * n))
    again = Results(tmp_path / "out", ("cat",))  # as a run that goes on does
    records = again.summarise([*queries, "not segmented"])
    assert [record.name for record in records] == list(queries)
    rows = list(csv.DictReader((tmp_path / "out/results.csv").read_text().splitlines()))
    assert [row["query"] for row in rows] == list(queries)
    assert rows[0]["source"] == str(queries["a"])
    assert (rows[1]["confidence"], rows[1]["proportion of cat"], rows[1]["presence of cat"]) == (
        "0.8000",
        "0.2500",
        "0.7500",
    )
    page = (tmp_path / "out/index.html").read_text()
    assert page.count("<img") == 3
    assert page.index("<b>d/c</b>") < page.index("<b>b</b>") < page.index("<b>a</b>")  # the least certain first


@pytest.mark.parametrize("format", ["coco.json", "label-studio.json", "labelme"])
def test_annotation_files_hold_the_same_masks(tmp_path, queries, format):
    results = Results(tmp_path / "out", ("cat", "dog"))
    for name, path in queries.items():
        results.write(name, made(path, classes=results.classes))
    results.summarise(list(queries), ("coco", "labelme", "label-studio"))
    annotations = read_annotated(tmp_path / "out" / format, images=tmp_path / "query")
    assert len(annotations) == 3
    for item in annotations:
        assert np.array_equal(item.ids({"cat": 1, "dog": 2}), made("x", classes=results.classes).mask)


def test_masks_of_others_are_not_taken_for_ours(tmp_path):
    results = Results(tmp_path, ("cat",))
    results.mask_path("x").parent.mkdir()
    Image.fromarray(square()).save(results.mask_path("x"))
    with pytest.raises(RepriError, match=r"x\.png was not written by `repri segment`: choose another output folder"):
        list(results.records(["x"]))
    results.write("x", made("x.png"))
    with pytest.raises(RepriError, match=r"x\.png has the classes cat, not dog: choose another output folder"):
        list(Results(tmp_path, ("dog",)).records(["x"]))


def test_exports_that_cannot_be_written(tmp_path):
    with pytest.raises(RepriError, match=r"--export: there is no format named 'pdf'\. Known: coco, labelme"):
        Results.check_formats(["coco", "pdf"])
    results, same = Results(tmp_path, ("cat",)), {"a/x": tmp_path / "a/x.png", "b/x": tmp_path / "b/x.png"}
    results.check_exports(same, ())
    with pytest.raises(RepriError, match=r"--export cannot tell .*a/x\.png from .*b/x\.png, which have one name"):
        results.check_exports(same, ("coco",))


def test_only_masks_of_this_run_are_finished(tmp_path, queries):
    first = Results(tmp_path / "out", ("cat",), made="one")
    for name, path in queries.items():
        first.write(name, made(path), query_file(path))
    assert first.finished(queries) == list(queries)
    Image.fromarray(noise(seed=7)).save(queries["a"])  # another image under the same name
    mask = first.mask_path("b")
    whole = mask.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"x" * 100, whole[:60] + b"?" + whole[61:], whole[:-20]):
        mask.write_bytes(damaged)
        assert first.finished({"b": queries["b"]}) == []
        assert not mask.exists()
    assert first.finished(queries) == ["d/c"]
    assert Results(tmp_path / "out", ("cat",), made="two").finished(queries) == []
    assert not list((tmp_path / "out/masks").rglob("*.png"))


def test_tables_hold_no_formulas(tmp_path):
    results = Results(tmp_path, ("cat",))
    results.write("=1+1", made("-x.png"))
    results.summarise(["=1+1"])
    assert (tmp_path / "results.csv").read_text().splitlines()[1].startswith("'=1+1,'-x.png,0.9")


def test_names_that_no_text_can_hold(tmp_path):
    """A file name may hold bytes that are no text."""
    name = os.fsdecode(b"caf\xe9")
    results = Results(tmp_path, ("cat",))
    results.write(name, made(f"{name}.png"))
    results.summarise([name], ("coco", "labelme", "label-studio"))
    assert "caf\\udce9" in (tmp_path / "results.csv").read_text()
    assert 'href="masks/caf%E9.png"' in (tmp_path / "index.html").read_text()


def test_queries_that_have_no_place():
    long = "x" * 252
    wrong = unwritable(["x", "x.png/y", "a.jpg/b", "a", "c", long, "x" * 251])
    assert set(wrong) == {"x", "a", long}
    assert "a folder of other queries is called like its mask" in wrong["x"]
    assert "too long" in wrong[long]


def test_objects_are_numbered_and_exported_one_by_one(tmp_path, queries):
    results = Results(tmp_path / "out", ("cat", "dog"), instances=True)
    result = made(queries["a"], classes=results.classes)
    result.mask[:] = 0
    result.mask[2:12, 2:12], result.mask[20:30, 2:12], result.mask[20:30, 20:30] = 1, 1, 2
    results.write("a", result)
    results.summarise(["a"], ("coco",))
    with Image.open(tmp_path / "out/instances/a.png") as image:
        numbers = np.array(image)
    assert np.unique(numbers[2:12, 2:12]).tolist() == [1]
    assert np.unique(numbers[20:30, 2:12]).tolist() == [2]
    (item,) = read_annotated(tmp_path / "out/coco.json", images=tmp_path / "query")
    assert sorted(shape.label for shape in item.shapes) == ["cat", "cat", "dog"]
    assert np.array_equal(item.ids({"cat": 1, "dog": 2}), result.mask)
    (tmp_path / "out/instances/a.png").unlink()
    with pytest.raises(RepriError, match="written without --instances"):
        results.summarise(["a"], ("coco",))

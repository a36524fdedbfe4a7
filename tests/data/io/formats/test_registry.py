"""All formats alike: annotations come back from where they were written, and mistakes are one sentence."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from repri.data import register_format
from repri.data.io.annotations import AnnotatedImage, Annotations, Shape
from repri.data.io.formats import FORMATS, detect_format, labelme, read_annotated, write_annotated
from repri.runtime.errors import RepriError
from tests.data.make import save_image

from .make import annotated, polygon, save_labelme

BUILT_IN = ("voc", "folder", "coco", "labelme", "label-studio")


@pytest.mark.parametrize("format", BUILT_IN)
def test_each_format_returns_the_same_masks(tmp_path, format):
    source = annotated(tmp_path / "source")
    path = tmp_path / ("out.json" if format in ("coco", "label-studio") else "out")
    write_annotated(source, path, format)
    assert detect_format(path) == format
    back = read_annotated(path, images=tmp_path / "source" / "images")
    assert back.classes == source.classes
    assert [item.image.name for item in back] == ["a.jpg", "b.jpg"]
    assert all(item.image.is_file() for item in back)
    for before, after in zip(source, back, strict=True):
        same = before.ids(source.ids) == after.ids(back.ids)
        assert same.all() if format != "labelme" else same.mean() > 0.995
    if format in ("folder", "voc"):
        with pytest.raises(RepriError, match="exists already: give the name of a new folder"):
            write_annotated(source, path, format)
    else:
        write_annotated(source, path, format)  # one file replaces another


@pytest.mark.parametrize("format", ["coco", "label-studio"])
def test_formats_without_an_order_keep_what_is_visible(tmp_path, format):
    """A large shape over a small one, an eraser and void on top; then strokes, whose rest stays unlabelled."""
    drawn = [polygon("a", 5, 5, 15, 15), polygon("b", 3, 3, 30, 30), polygon("background", 20, 20, 25, 25)]
    stroke = {"label": "a", "points": [[5, 5], [40, 30]], "shape_type": "linestrip"}
    for number, shapes in enumerate([[*drawn, polygon("ignore", 28, 0, 32, 32), polygon("a", 50, 5, 55, 9)], [stroke]]):
        source = read_annotated(save_labelme(tmp_path / f"{number}.json", shapes))
        write_annotated(source, tmp_path / "out.json.x", format)
        back = read_annotated(tmp_path / "out.json.x", format)
        assert (back.images[0].ids(back.ids) == source.images[0].ids(source.ids)).all()


def test_nothing_is_lost_or_half_written(tmp_path):
    source = annotated(tmp_path / "source")
    other = tmp_path / "other" / "a.jpg"
    save_image(other)
    clash = Annotations(source.classes, (*source.images, AnnotatedImage(other, 40, 60, source.images[0].shapes)))
    gone = Annotations(
        source.classes, (*source.images, AnnotatedImage(tmp_path / "z.jpg", 40, 60, source.images[0].shapes))
    )
    for format in BUILT_IN:
        with pytest.raises(RepriError, match=r"a.jpg and .*a.jpg would both be written as"):
            write_annotated(clash, tmp_path / "out", format)
    for format in ("folder", "voc"):
        with pytest.raises(RepriError, match=r"z.jpg does not exist: say where the images are"):
            write_annotated(gone, tmp_path / "out", format)
    assert not (tmp_path / "out").exists()
    with pytest.raises(RepriError, match=r"nothing is written to .*: no object is labelled"):
        write_annotated(Annotations((), source.images), tmp_path / "out", "coco")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("3", "is not an annotation file: it holds one value instead of a list"),
        ("{}", "in none of the known formats"),
        ('{"shapes": [{"label": "x"}]}', "needs the size of|a shape cannot be read"),
        ('{"shapes": [{"label": "x"}], "imageHeight": 4, "imageWidth": 4}', "a shape cannot be read"),
        ('[{"data": {}, "annotations": [{"result": [{"type": "labels"}]}]}]', "task 0: cannot be read"),
        ('{"categories": [], "images": []}', "is not COCO's annotation format .it: there is no 'annotations'"),
        ('{"categories": 3, "images": []}', "is not COCO's annotation format"),
        ("[]", "holds no annotated image"),
    ],
)
def test_files_that_are_something_else(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(RepriError, match=message) as caught:
        read_annotated(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_an_empty_folder_and_an_unknown_format(tmp_path):
    with pytest.raises(RepriError, match=r"in none of the known formats \(voc, folder, coco, labelme, label-studio"):
        read_annotated(tmp_path)
    with pytest.raises(RepriError, match="no annotation format named 'yolo'"):
        read_annotated(tmp_path, "yolo")
    with pytest.raises(RepriError, match="nowhere does not exist"):
        read_annotated(tmp_path / "nowhere")


def test_a_large_file_is_parsed_once(tmp_path, monkeypatch):
    source = annotated(tmp_path / "source")
    write_annotated(source, tmp_path / "x.json", "coco")
    parsed = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda *args: parsed.append(1) or loads(*args))
    assert len(read_annotated(tmp_path / "x.json")) == 2
    assert len(parsed) == 1


def test_options_reach_the_format(tmp_path):
    source = annotated(tmp_path / "source")
    write_annotated(source, tmp_path / "x.json", "coco", polygons=True)
    content = json.loads((tmp_path / "x.json").read_text())
    assert isinstance(content["annotations"][0]["segmentation"], list)
    with pytest.raises(RepriError, match="the format voc has no option 'polygons'; it has: none"):
        write_annotated(source, tmp_path / "out", "voc", polygons=True)


@pytest.fixture
def corner_format(monkeypatch):
    """A format of user code: a text file with the name of an image whose top left pixel is labelled."""

    def read(path, images=None):
        shape = Shape("corner", "box", ((0, 0), (1, 1)))
        return Annotations(("corner",), (AnnotatedImage((images or path.parent) / path.read_text(), 40, 60, (shape,)),))

    def write(annotations, path):
        path.write_text(annotations.images[0].image.name)

    for part in ("_objects", "_about"):  # forgotten after the test
        monkeypatch.setattr(FORMATS, part, dict(getattr(FORMATS, part)))
    format = SimpleNamespace(read=read, write=write, detect=lambda path: path.suffix == ".corner", __name__="corner")
    register_format("corner", format, "one labelled pixel")
    return format


def test_user_code_adds_a_format(tmp_path, corner_format):
    write_annotated(annotated(tmp_path), tmp_path / "x.corner", "corner")
    back = read_annotated(tmp_path / "x.corner", images=tmp_path / "images")
    assert np.argwhere(back.images[0].ids(back.ids)).tolist() == [[0, 0]]
    assert FORMATS.about("corner") == "one labelled pixel"
    register_format("corner", corner_format)  # the same code again
    with pytest.raises(RepriError, match="there is already an annotation format named 'coco'"):
        register_format("coco", corner_format)
    with pytest.raises(RepriError, match="there is already an annotation format named 'coco'"):
        register_format("coco", labelme)


def test_another_package_adds_a_format(tmp_path, corner_format, monkeypatch):
    """Through an entry point, which is loaded when no other format knows the file."""
    monkeypatch.setattr(FORMATS, "_objects", {k: v for k, v in FORMATS._objects.items() if k != "corner"})
    point = SimpleNamespace(name="corner", load=lambda: corner_format)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == "repri.formats" else [])
    (tmp_path / "x.corner").write_text("a.jpg")
    assert detect_format(tmp_path / "x.corner") == "corner"
    assert read_annotated(tmp_path / "x.corner").classes == ("corner",)

"""Names of classes and of files that a format cannot say, or that would be read back as something else."""

import numpy as np
import pytest
from PIL import Image

from repri.data.io.annotations import AnnotatedImage, Annotations, Shape
from repri.data.io.formats import FORMATS, read_annotated, write_annotated
from repri.runtime.errors import RepriError

CONTROLS = "\n\r\x0b\x0c\x1c\x85\u2028\u2029\x00"
REFUSED = [*(f"a{control}b" for control in CONTROLS), "\ud800", " ", "", "x" * 300, "\u202ecat", "\u200b"]
KEPT = [
    "a:b",
    "#a",
    "a b",
    "=cmd|'/c calc'!A1",
    "-1",
    "名前",
    "a/b",
    "a,b",
    "<b>",
    '"',
    "a\u00a0b",
    "𝒳",
    "{fold}",
    "null",
    "می\u200cخواهم",
]
CANNOT = {"voc": ("a:b", "#a")}
"""Names that a format has no way to say."""
OWN = [name for name in FORMATS if name in ("voc", "folder", "coco", "labelme", "label-studio", "cvat", "yolo")]


def annotated(folder, *names):
    """Annotations of one image with a square of each class."""
    Image.new("RGB", (40, 30)).save(folder / "a.png")
    shapes = []
    for place, name in enumerate(names):
        region = np.zeros((30, 40), bool)
        region[5:15, 10 * place + 1 : 10 * place + 8] = True
        shapes.append(Shape(name, "mask", mask=lambda region=region: region))
    return Annotations(tuple(names), (AnnotatedImage(folder / "a.png", 30, 40, tuple(shapes)),))


def target(folder, format):
    return folder / ("out.json" if format in ("coco", "label-studio") else "out")


@pytest.mark.parametrize("format", OWN)
def test_names_mean_the_same_when_they_are_read_back(tmp_path, format):
    (tmp_path / "out").mkdir()  # as the folder of an image's labels may be there already
    for number, name in enumerate(KEPT):
        folder = tmp_path / str(number)
        folder.mkdir()
        content = annotated(folder, "one", name, "two")
        if name in CANNOT.get(format, ()):
            with pytest.raises(RepriError, match="cannot hold the class"):
                write_annotated(content, target(folder, format), format)
            assert [path.name for path in folder.iterdir()] == ["a.png"]  # it is said before anything is written
            continue
        write_annotated(content, target(folder, format), format)
        back = read_annotated(target(folder, format), format, folder)
        assert set(back.classes) == {"one", name, "two"}
        for label in back.classes:
            mask = back.images[0].ids({other: int(other == label) for other in back.classes})
            assert (mask == content.images[0].ids({other: int(other == label) for other in content.classes})).all()


@pytest.mark.parametrize("format", OWN)
@pytest.mark.parametrize("name", REFUSED, ids=ascii)
def test_names_that_no_file_can_hold_are_refused(tmp_path, format, name):
    with pytest.raises(RepriError, match=r"cannot be the name of a class"):
        write_annotated(annotated(tmp_path, "one", name), target(tmp_path, format), format)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.parametrize("lines", ["cat\x0bdog\n", "cat\u2028dog\n", "cat\x85dog\n", "cat\rdog\n"])
def test_lines_end_at_line_feeds_alone(tmp_path, lines):
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "images" / "a.png")
    Image.fromarray(np.array([[1, 2], [1, 2]], np.uint8).repeat(2, 0).repeat(2, 1)).save(tmp_path / "masks" / "a.png")
    (tmp_path / "classes.txt").write_bytes(lines.encode())
    with pytest.raises(RepriError, match=r"classes.txt, line 1: .*cannot be the name of a class"):
        read_annotated(tmp_path)
    (tmp_path / "classes.txt").write_bytes(b"\xef\xbb\xbfcat\r\ndog\r\n")  # as Windows writes it
    assert read_annotated(tmp_path).classes == ("cat", "dog")

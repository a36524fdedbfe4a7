"""``repri segment`` from end to end."""

import csv
import json
import shutil
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from repri.cli import app
from repri.data.io.formats import read_annotated
from repri.data.io.masks import read_mask
from repri.models.load import EXTRACTORS
from tests.make import build_quick
from tests.regions.make import write_pair


def run(tree, output, *more, query="query", support="support"):
    options = ["--support", str(tree / support), "--query", str(tree / query), "--output", str(output)]
    return CliRunner().invoke(app, ["segment", *options, "--extractor", "quick", *map(str, more)])


def refused(done, sentence):
    """One sentence; what ``main`` prints."""
    assert done.exit_code == 1, done.output
    assert sentence in str(done.exception), done.exception


def claiming(png, width, height):
    """A PNG whose header says another size."""
    header = png[12:16] + struct.pack(">II", width, height) + png[24:29]
    return png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """An extractor that needs no time."""
    monkeypatch.setattr(EXTRACTORS, "_objects", {**EXTRACTORS._objects, "quick": build_quick})


def test_everything_is_written(tree, tmp_path):
    filters = ("--extractor", "filters", "--size", "96")
    files = ("--overlays", "--probabilities", "--export", "coco,labelme,label-studio")
    done = run(tree, tmp_path / "out", *filters, *files)
    assert done.exit_code == 0, done.output
    assert "4 of 4 queries" in done.output
    sizes = {"a": (256, 256), "b": (200, 256), "c": (256, 226), "turned": (200, 256)}
    for name, size in sizes.items():
        mask = read_mask(tmp_path / "out/masks" / f"{name}.png")
        assert mask.shape == size
        assert set(np.unique(mask)) == {0, 1}
        for folder, suffix in (("overlays", "jpg"), ("probabilities", "png"), ("thumbnails", "jpg")):
            with Image.open(tmp_path / "out" / folder / f"{name}.{suffix}") as image:
                assert folder == "thumbnails" or image.size == size[::-1]
        with Image.open(tmp_path / "out/probabilities" / f"{name}.png") as image:
            assert np.array_equal(np.asarray(image) > 32767.5, mask == 1)
    assert np.array_equal(
        read_mask(tmp_path / "out/masks/turned.png"), read_mask(tmp_path / "out/masks/b.png")
    )  # the same image, one of them turned
    rows = list(csv.DictReader((tmp_path / "out/results.csv").read_text().splitlines()))
    assert [row["query"] for row in rows] == ["a", "b", "c", "turned"]
    assert all(0 < float(row["confidence"]) <= 1 for row in rows)
    page = (tmp_path / "out/index.html").read_text()
    assert page.count("<img") == 4
    for format in ("coco.json", "label-studio.json", "labelme"):
        annotations = read_annotated(tmp_path / "out" / format, images=tree / "query")
        assert len(annotations) == 4
        for item in annotations:
            mask = read_mask(tmp_path / "out/masks" / f"{item.image.stem}.png")
            assert np.array_equal(item.ids(annotations.ids), mask)


def test_a_stopped_run_goes_on(tree, tmp_path):
    first = run(tree, tmp_path / "out", query="query/a.png")
    assert first.exit_code == 0
    before = (tmp_path / "out/masks/a.png").stat().st_mtime_ns
    refused(run(tree, tmp_path / "out"), f"{tmp_path}/out holds results already: go on with --resume")
    done = run(tree, tmp_path / "out", "--resume")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out/masks/a.png").stat().st_mtime_ns == before
    assert len(list((tmp_path / "out/masks").glob("*.png"))) == 4
    assert len((tmp_path / "out/results.csv").read_text().splitlines()) == 5


def test_bad_images_do_not_stop_the_others(tree, tmp_path):
    queries = tmp_path / "query"
    queries.mkdir()
    (queries / "text.jpg").write_text("not an image")
    (queries / "empty.png").write_bytes(b"")
    (queries / "fine.png").write_bytes((tree / "query/a.png").read_bytes())
    (queries / "huge.png").write_bytes(claiming((tree / "query/a.png").read_bytes(), 30_000, 30_000))
    done = run(tree, tmp_path / "out", query=queries)
    assert done.exit_code == 3
    assert "1 of 4 queries" in done.output
    for name, why in (("text", "text.jpg cannot be read as an image"), ("empty", "0 bytes"), ("huge", "the limit is")):
        assert f"not segmented: {name}: " in done.output
        assert why in done.output
    assert [p.name for p in (tmp_path / "out/masks").iterdir()] == ["fine.png"]


def test_queries_by_pattern_and_list(tree, tmp_path):
    pattern = run(tree, tmp_path / "one", query="query/[ab].png")
    assert "2 of 2" in pattern.output
    (tree / "list.txt").write_text("query/a.png\n# not this one\nquery/c.png\n")
    listed = run(tree, tmp_path / "two", query="list.txt")
    assert "2 of 2" in listed.output
    assert sorted(p.stem for p in (tmp_path / "two/masks").iterdir()) == ["a", "c"]


def test_folders_below_keep_their_names(tree, tmp_path):
    for part in ("left", "right"):
        (tmp_path / "query" / part).mkdir(parents=True)
        (tmp_path / "query" / part / "x.png").write_bytes((tree / "query/a.png").read_bytes())
    done = run(tree, tmp_path / "out", query=tmp_path / "query")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out/masks/left/x.png").is_file()
    assert (tmp_path / "out/masks/right/x.png").is_file()


def test_annotated_images_among_the_queries_are_left_out(tree, tmp_path):
    (tmp_path / "query").mkdir()
    (tmp_path / "query/again.png").write_bytes((tree / "support/images/s0.png").read_bytes())
    (tmp_path / "query/a.png").write_bytes((tree / "query/a.png").read_bytes())
    done = run(tree, tmp_path / "out", query=tmp_path / "query")
    assert done.exit_code == 0
    assert "left out, because they are annotated: again" in done.output
    assert "1 of 1 queries" in done.output


@pytest.fixture(scope="module")
def two(tree):
    """A COCO file of two classes, each in an image of its own."""
    from repri.data.io.segmentations import encode

    content = {
        "images": [{"id": i, "file_name": f"s{i}.png", "height": 256, "width": 256} for i in (0, 1)],
        "categories": [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}],
        "annotations": [],
    }
    for i in (0, 1):
        mask = read_mask(tree / "support/masks" / f"s{i}.png", "auto") == 1
        entry = {"id": i + 1, "image_id": i, "category_id": i + 1, "iscrowd": 0, "segmentation": encode(mask)}
        content["annotations"].append(entry | {"bbox": [0, 0, 9, 9], "area": int(mask.sum())})
    (tree / "two.json").write_text(json.dumps(content))
    return {"support": "two.json", "query": "query/a.png"}


def test_several_classes_from_coco(tree, tmp_path, two):
    images = ("--images", tree / "support/images")
    done = run(tree, tmp_path / "both", *images, "--proportion", "one=0.1,two=0.2", **two)
    assert done.exit_code == 0, done.output
    assert "Several classes: if you know which of them each image shows" in done.output
    header, row = (tmp_path / "both/results.csv").read_text().splitlines()
    assert header.endswith("proportion of one,proportion of two,presence of one,presence of two")
    assert row.split(",")[3:5] == ["0.1000", "0.2000"]
    one = run(tree, tmp_path / "one", *images, "--classes", "two", **two)
    assert one.exit_code == 0, one.output
    for more, sentence in (
        (("--classes", "three"), "two.json has no class 'three'; it has one, two"),
        (("--proportion", "0.1"), "--proportion takes one=0.1,two=0.2, got '0.1'"),
    ):
        refused(run(tree, tmp_path / "no", *images, *more, **two), sentence)


def test_classes_that_are_known_to_be_there(tree, tmp_path, two):
    options, table = ("--images", tree / "support/images", "--present", tmp_path / "tags.csv"), tmp_path / "tags.csv"
    query = tree / two["query"]
    name = query.name if query.is_file() else next(iter(sorted(query.iterdir()))).name
    table.write_text(f"image,classes\n{name},two\n")
    done = run(tree, tmp_path / "told", *options, **two)
    assert done.exit_code == 0, done.output
    assert "--present" not in done.output
    row = dict(zip(*csv.reader((tmp_path / "told/results.csv").read_text().splitlines()), strict=True))
    assert (float(row["presence of one"]), float(row["presence of two"])) == (0, 1)
    assert float(row["proportion of one"]) == 0
    table.write_text(f"image,classes\n{name},one\n")
    refused(run(tree, tmp_path / "told", *options, "--resume", **two), "present")
    table.write_text("other.png,one\n")
    refused(run(tree, tmp_path / "no", *options, **two), "names none of the queries: begin each line with a file name")
    table.write_text(f"{name},three\n")
    refused(run(tree, tmp_path / "no", *options, **two), "tags.csv, line 1: 'three' is no class. Known: one, two")


def test_settings_from_yaml_and_flags(tree, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        f"support: {tree / 'support'}\nquery: {tree / 'query/a.png'}\nextractor: {{name: quick, size: 64}}\n"
        "method: {preset: original, settings: {steps: 3}}\nlook: {mirror: true}\n"
        "write: {overlays: true}\nrefine: none\n"
    )
    flags = ["--output", str(tmp_path / "out"), "--no-mirror"]
    done = CliRunner().invoke(app, ["segment", "--config", str(config), *flags])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out/overlays/a.jpg").is_file()
    config.write_text("look: {miror: true}\n")
    refused(CliRunner().invoke(app, ["segment", "--config", str(config)]), "did you mean 'look.mirror'")
    missing = CliRunner().invoke(app, ["segment", "--support", str(tree / "support")])
    refused(missing, "--query is missing: repri segment needs --support, --query and --output")


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ({"support": "nowhere"}, [], "nowhere does not exist"),
        ({"query": "nowhere"}, [], "nowhere does not exist"),
        ({"query": "nothing*.png"}, [], "no image matches"),
        ({}, ["--export", "pdf"], "--export: there is no format named 'pdf'. Known: coco, labelme, label-studio"),
        ({}, ["--proportion", "half"], "--proportion takes 0.1, or a range such as 0.05-0.2, got 'half'"),
        ({}, ["--proportion", "1.5"], "A proportion lies between 0 and 1"),
        ({}, ["--scales", "big"], "--scales must be a list (numbers), got 'big'"),
        ({}, ["--set", "speed=3"], "There is no inference setting named 'speed'"),
    ],
)
def test_mistakes(tree, tmp_path, changes, options, sentence):
    refused(run(tree, tmp_path / "out", *options, **changes), sentence)
    assert not list((tmp_path / "out").rglob("*.png"))


def test_mistakes_in_the_support(tree, tmp_path):
    for name in ("images", "masks"):
        (tmp_path / "support" / name).mkdir(parents=True)
    refused(run(tree, tmp_path / "out", support=tmp_path / "support"), f"{tmp_path}/support")
    Image.new("RGB", (40, 30)).save(tmp_path / "support/images/x.png")
    Image.new("L", (40, 30)).save(tmp_path / "support/masks/x.png")
    refused(run(tree, tmp_path / "out", support=tmp_path / "support"), "support holds no annotated image")
    Image.new("L", (30, 30), 1).save(tmp_path / "support/masks/x.png")
    refused(run(tree, tmp_path / "out", support=tmp_path / "support"), "a mask must have the size of its image")


def test_two_queries_of_one_name(tree, tmp_path):
    (tmp_path / "query").mkdir()
    for suffix in ("png", "bmp"):
        Image.new("RGB", (40, 40)).save(tmp_path / f"query/x.{suffix}")
    refused(run(tree, tmp_path / "out", query=tmp_path / "query"), "would both be written as 'x'")


def test_a_place_that_cannot_be_written(tree, tmp_path):
    (tmp_path / "file").write_text("in the way")
    sentence = f"Cannot write {tmp_path}/file/out/masks/x.png: Not a directory; choose another place"
    refused(run(tree, tmp_path / "file" / "out"), sentence)


def test_results_beside_the_queries_are_no_queries(tree, tmp_path):
    (tmp_path / "query").mkdir()
    (tmp_path / "query/a.png").write_bytes((tree / "query/a.png").read_bytes())
    for more in ([], ["--resume"]):
        done = run(tree, tmp_path / "query/out", *more, query=tmp_path / "query")
        assert "1 of 1 queries" in done.output, done.output


def test_results_of_other_classes_are_not_mixed(tree, tmp_path):
    assert run(tree, tmp_path / "out").exit_code == 0
    (tmp_path / "support").mkdir()
    for name in ("images", "masks"):
        (tmp_path / "support" / name).symlink_to(tree / "support" / name)
    (tmp_path / "support/classes.txt").write_text("cat\n")
    refused(run(tree, tmp_path / "out", "--resume", support=tmp_path / "support"), "not cat: choose another output")


def test_an_image_without_the_object_may_be_in_the_support(tree, tmp_path):
    shutil.copytree(tree / "support", tmp_path / "support")
    Image.new("RGB", (256, 256), (90, 90, 90)).save(tmp_path / "support/images/empty.png")
    Image.new("L", (256, 256)).save(tmp_path / "support/masks/empty.png")
    assert run(tree, tmp_path / "out", support=tmp_path / "support").exit_code == 0


def test_grey_levels_are_no_classes(tree, tmp_path):
    for name in ("images", "masks"):
        (tmp_path / "support" / name).mkdir(parents=True)
    ramp = np.arange(256, dtype=np.uint8)[None].repeat(256, 0)
    Image.fromarray(ramp).save(tmp_path / "support/masks/x.png")
    Image.fromarray(ramp).convert("RGB").save(tmp_path / "support/images/x.png")
    refused(run(tree, tmp_path / "out", support=tmp_path / "support"), "if they are grey levels of one object")


def test_exports_need_different_names(tree, tmp_path):
    for part in ("left", "right"):
        (tmp_path / "query" / part).mkdir(parents=True)
        (tmp_path / "query" / part / "x.png").write_bytes((tree / "query/a.png").read_bytes())
    done = run(tree, tmp_path / "out", "--export", "coco", query=tmp_path / "query")
    refused(done, f"--export cannot tell {tmp_path}/query/left/x.png from")
    assert not list((tmp_path / "out").rglob("*.png"))


def test_instances_and_regions(tree, tmp_path, monkeypatch):
    """Objects are numbered, and the region model is one that the test writes."""
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    refused(run(tree, tmp_path / "none", "--refine", "regions"), "run repri weights get sam2-tiny")
    refused(run(tree, tmp_path / "none", "--regions", "sam2-tiny"), "refine is 'guided'")
    assert not list((tmp_path / "none").rglob("*.png"))
    folder = write_pair(tmp_path / "pair")
    done = run(tree, tmp_path / "out", "--refine", "regions", "--regions", folder, "--instances", "--no-auto")
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "out/coco.json").read_text())
    for image in content["images"]:
        with Image.open(tmp_path / "out/instances" / f"{image['file_name'].split('.')[0]}.png") as numbers:
            count = int(np.asarray(numbers).max())
        assert sum(entry["image_id"] == image["id"] for entry in content["annotations"]) == count

"""Annotated pictures in, masks out: on generated scenes, with features that need no weights."""

import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from repri.segmenter.support import cell_labels

from repri import Segmenter
from repri.data.datasets.index import class_index, class_lists
from repri.data.datasets.open import open_dataset
from repri.data.datasets.scenes import make_task
from repri.experiments.demo import photographs, scenes
from repri.features.view import geometry
from repri.models import load_extractor
from repri.models.heads.discriminant import Discriminant, Moments
from repri.segmenter.inputs import as_masks, as_picture, load_shots, shares_of
from repri.segmenter.tiles import starts, window


def iou(found, truth):
    inside = (found == 1) & (truth == 1)
    return inside.sum() / ((found == 1) | (truth == 1)).sum()


@pytest.fixture(scope="module")
def pair():
    """A generated task that filters solve."""
    return scenes([0])[0]


@pytest.fixture(scope="module")
def fitted(pair):
    return Segmenter("filters", refine=False).fit(pair[0].image, pair[0].mask)


def test_the_object_is_found(pair, fitted):
    found = fitted.segment(pair[1].image)
    assert found.mask.shape == pair[1].mask.shape
    assert found.mask.dtype == np.uint8
    assert found.probability.shape == pair[1].mask.shape
    assert found.probability.dtype == np.float32
    assert iou(found.mask, pair[1].mask) > 0.6
    assert np.array_equal(found.mask == 1, found.probability > 0.5)
    assert 0 < found.proportion < 1
    assert 0 < found.confidence <= 1


def test_what_the_extractor_knows_of_backgrounds_is_used(pair):
    plain = load_extractor("filters")
    cells = plain.extract(torch.from_numpy(pair[0].image).movedim(-1, 0)[None] / 255)
    labels = F.interpolate(torch.from_numpy(pair[0].mask)[None, None].float(), cells.shape[-2:], mode="nearest")
    head, moments = Discriminant(plain.widths, 16), Moments.empty(2, plain.channels)
    for label in (0, 1):
        moments.add(head.unit(cells)[0].flatten(1).T[labels.flatten() == label], label)
    head.fit(moments)
    extractor = load_extractor("filters", head=head)
    seg = Segmenter(extractor, refine=False)
    assert seg.config.background == "known"
    found = seg.fit(pair[0].image, pair[0].mask).segment(pair[1].image)
    assert iou(found.mask, pair[1].mask) > 0.6
    sized = seg.segment(pair[1].image, proportion=0.1)
    assert abs((sized.mask == 1).mean() - 0.1) < 0.05
    assert Segmenter(extractor, config={"form": "clean", "lr": 0.01}).config.lr == 0.01
    assert Segmenter(extractor, config="clean").config.background == "both"
    assert Segmenter("filters").config.background == "both"


def test_every_kind_of_picture_gives_the_same(pair, fitted, tmp_path):
    image = pair[1].image
    Image.fromarray(image).save(tmp_path / "query.png")
    tensor = torch.from_numpy(image).movedim(-1, 0)
    kinds = [str(tmp_path / "query.png"), tmp_path / "query.png", Image.fromarray(image), tensor, tensor.float() / 255]
    expected = fitted.segment(image).probability
    for found in fitted.segment_many([*kinds, image.astype(np.float64) / 255], batch=4):
        np.testing.assert_allclose(found.probability, expected, atol=1e-5)


def test_every_kind_of_mask_means_the_same(pair, tmp_path):
    image, mask = pair[0]
    Image.fromarray(mask * 255).save(tmp_path / "two.png")
    Image.fromarray(mask).save(tmp_path / "ids.png")
    kinds = [
        mask == 1,
        mask * 255,
        torch.from_numpy(mask),
        mask.astype(np.float32),
        tmp_path / "two.png",
        tmp_path / "ids.png",
    ]
    seg = Segmenter("filters", refine=False)
    expected = seg.fit(image, mask).segment(pair[1].image).probability
    for kind in kinds:
        np.testing.assert_allclose(seg.fit(image, kind).segment(pair[1].image).probability, expected, atol=1e-6)


def test_many_are_as_one_at_a_time(pair, fitted):
    pictures = [pair[1].image, pair[0].image, pair[1].image[:200], pair[1].image[:, :180], pair[1].image]
    together = list(fitted.segment_many(pictures, batch=3))
    for picture, found in zip(pictures, together, strict=True):
        alone = fitted.segment(picture)
        assert found.mask.shape == picture.shape[:2]
        np.testing.assert_allclose(found.probability, alone.probability, atol=2e-3)


def test_a_stream_is_taken_as_it_comes(pair, fitted):
    taken = []

    def stream():
        for i in range(1000):
            taken.append(i)
            yield pair[1].image

    results = fitted.segment_many(stream(), batch=2)
    next(results)
    assert len(taken) < 60


def test_pictures_that_cannot_be_used_are_told(pair, fitted, tmp_path):
    (tmp_path / "bad.jpg").write_text("no picture")
    problems = []
    pictures = [pair[1].image, tmp_path / "bad.jpg", pair[1].image]
    found = list(fitted.segment_many(pictures, on_error=lambda name, error: problems.append((name, str(error)))))
    assert len(found) == 2
    assert problems[0][0].endswith("bad.jpg")
    with pytest.raises(ValueError, match="cannot be read as an image"):
        list(fitted.segment_many(pictures))


def test_shots_of_different_sizes(pair):
    (image, mask), (query, truth) = pair
    seg = Segmenter("filters", refine=False).fit([image, image[:180]], [mask, mask[:180]])
    assert iou(seg.segment(query).mask, truth) > 0.5


def test_a_known_size_is_kept(pair, fitted):
    for share in (0.1, 0.3):
        found = fitted.segment(pair[1].image, proportion=share)
        assert found.proportion == pytest.approx(share)
        assert found.probability.mean() == pytest.approx(share, abs=0.1)
    low = fitted.segment(pair[1].image, proportion=(0.01, 0.05))
    assert low.proportion == pytest.approx(0.05)
    assert low.mask.mean() < fitted.segment(pair[1].image).mask.mean()
    free = fitted.segment(pair[1].image, proportion=(0.001, 0.999))
    assert np.array_equal(free.mask, fitted.segment(pair[1].image).mask)


@pytest.mark.parametrize("joint", [True, False])
def test_several_classes_make_one_map(joint):
    """Two textures, each annotated in its own scene, both in one picture."""
    tasks = [make_task(seed) for seed in (0, 2)]
    images = [(t.support[0].movedim(0, -1) * 255).byte().numpy() for t in tasks]
    masks = [t.support_masks[0].numpy() for t in tasks]
    queries = [(t.query.movedim(0, -1) * 255).byte().numpy() for t in tasks]
    both = np.concatenate(queries, 1)
    seg = Segmenter("filters", refine=False, joint=joint)
    seg.fit({"a": images[0], "b": images[1]}, {"a": masks[0], "b": masks[1]})
    assert seg.classes == ("a", "b")
    found = seg.segment(both)
    assert found.probability.shape == (2, *both.shape[:2])
    assert set(found.proportion) == set(found.presence) == {"a", "b"}
    assert (found.probability.sum(0) <= 1 + 1e-5).all()
    truth = np.concatenate([tasks[0].query_mask.numpy(), 2 * tasks[1].query_mask.numpy()], 1)
    assert (found.mask == truth).mean() > 0.75
    numbered = seg.fit(images, [masks[0], 2 * masks[1]], classes=("a", "b")).segment(both)
    assert np.array_equal(numbered.mask, found.mask)
    paired = seg.fit({"a": (images[0], masks[0]), "b": (images[1], masks[1])}).segment(both)
    assert np.array_equal(paired.mask, found.mask)


def test_boxes_and_scribbles(pair):
    (image, mask), (query, truth) = pair
    rows, columns = np.nonzero(mask.any(1))[0], np.nonzero(mask.any(0))[0]
    box = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    seg = Segmenter("filters", refine=False)
    assert iou(seg.fit(image, boxes=box).segment(query).mask, truth) > 0.4
    assert iou(seg.fit([image], boxes=[[box]]).segment(query).mask, truth) > 0.4
    scribble = np.full(mask.shape, 255, np.uint8)
    middle = (rows[0] + rows[-1]) // 2
    scribble[middle - 3 : middle + 3] = mask[middle - 3 : middle + 3]
    scribble[:4] = 0
    assert iou(seg.fit(image, scribbles=scribble).segment(query).mask, truth) > 0.4


@pytest.mark.parametrize(
    "options", [{"mirror": True}, {"shifts": 2}, {"scales": (0.8, 1.2)}, {"tile": 150}, {"refine": True}]
)
def test_other_ways_to_look(pair, options):
    (image, mask), (query, truth) = pair
    found = Segmenter("filters", **{"refine": False} | options).fit(image, mask).segment(query)
    assert found.mask.shape == truth.shape
    assert 0 <= found.probability.min() <= found.probability.max() <= 1
    assert iou(found.mask, truth) > 0.5


def test_tiles_cover_everything():
    for length, side in ((500, 300), (300, 300), (1000, 256), (257, 256), (100, 300)):
        places = starts(length, side)
        covered = np.zeros(length, int)
        for start in places:
            covered[start : start + side] += 1
        assert covered.min() >= 1
        assert places[-1] + side >= length
    assert window(64).min() > 0
    assert window(64).max() == 1


def test_a_mirror_image_gives_the_mirrored_mask(pair):
    (image, mask), (query, _) = pair
    seg = Segmenter("filters", refine=False, mirror=True).fit(image, mask)
    plain, turned = (seg.segment(q).probability for q in (query, query[:, ::-1]))
    np.testing.assert_allclose(turned[:, ::-1], plain, atol=0.02)


def test_exif_turns_pictures(pair, fitted, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.ascontiguousarray(np.rot90(pair[1].image[:200]))).save(tmp_path / "turned.png", exif=exif)
    found = fitted.segment(tmp_path / "turned.png")
    assert found.mask.shape == (200, pair[1].image.shape[1])
    assert np.array_equal(found.mask, fitted.segment(pair[1].image[:200]).mask)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (lambda i, m: ([], []), "there is no support"),
        (lambda i, m: (i, None), "give one of masks, boxes or scribbles, got none"),
        (lambda i, m: ([i, i], [m]), "2 pictures and 1 masks"),
        (lambda i, m: (i, m * 0), "no mask shows 'object'"),
        (lambda i, m: (i, m[:50]), "a mask must have the size of its image"),
        (lambda i, m: (i, m * 3), r"the mask holds 3; there may be 0 … 1"),
        (lambda i, m: (i.astype(np.int32), m), "a picture is uint8 or float"),
        (lambda i, m: (i[..., :2], m), r"a picture is an array \[H, W, 3\]"),
        (lambda i, m: ({"a": i}, {"b": m}), "masks with the same names"),
        (lambda i, m: ("missing.jpg", m), "missing.jpg does not exist"),
    ],
)
def test_mistakes_in_the_support(pair, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Segmenter("filters").fit(*arguments(*pair[0]))


def test_other_mistakes(pair, fitted):
    image = pair[1].image
    with pytest.raises(ValueError, match="call fit first"):
        Segmenter("filters").segment(image)
    for proportion in (0, 1.5, (0.5, 0.2), {"cat": 0.1}):
        with pytest.raises(ValueError, match="proportion"):
            fitted.segment(image, proportion=proportion)
    with pytest.raises(ValueError, match="inside 256×256"):
        Segmenter("filters").fit(pair[0].image, boxes=(10, 10, 5, 40))
    with pytest.raises(ValueError, match="scales must be"):
        Segmenter("filters", scales=())
    with pytest.raises(ValueError, match="tile must be"):
        Segmenter("filters", tile=3)
    with pytest.raises(ValueError, match="batch"):
        list(fitted.segment_many([image], batch=0))


def test_pictures_of_every_shape():
    assert as_picture(np.zeros((5, 7), np.uint8)).shape == (5, 7, 3)
    assert as_picture(torch.zeros(3, 5, 7)).shape == (5, 7, 3)
    assert as_picture(torch.zeros(3, 50, 1)).shape == (50, 1, 3)
    assert as_picture(torch.zeros(1, 5, 7)).shape == (5, 7, 3)
    assert as_picture(np.zeros((5, 7, 4), np.uint8)).mean() == 255  # transparent, on white
    assert as_picture(np.full((5, 7), 65535, np.uint16)).mean() == 255
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        as_picture(np.full((4, 4, 3), 7.0))


def test_a_pillow_image_that_cannot_be_read(pair, fitted, tmp_path):
    Image.fromarray(pair[1].image).save(tmp_path / "cut.png")
    content = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(content[: len(content) // 3])
    problems = []
    with Image.open(tmp_path / "cut.png") as picture:
        found = list(fitted.segment_many([picture, pair[1].image], on_error=lambda *facts: problems.append(facts)))
    assert len(found) == len(problems) == 1


def test_what_255_means():
    """The object among masks of two levels; neither beside masks of ids; never the object in scribbles."""
    two, ids = np.array([[0, 255]]), np.array([[0, 1]])
    assert as_masks([two, two * 0], 1)[0].tolist() == [[0, 1]]
    assert as_masks([two, ids], 1)[0].tolist() == [[0, 255]]
    assert as_masks([two.astype(float)], 1)[0].tolist() == [[0, 1]]
    assert as_masks([torch.tensor([[[0, 1]]])], 1)[0].tolist() == [[0, 1]]
    assert as_masks([Image.fromarray(np.array([[0, 255]], np.uint8)).convert("RGB")], 1)[0].tolist() == [[0, 1]]
    assert as_masks([np.array([[0.2, 255.0]])], 1)[0].dtype == np.float32
    picture = np.zeros((4, 4, 3), np.uint8)
    strokes = [np.array([[0, 255, 255, 255]] * 4), np.array([[0, 1, 255, 255]] * 4)]
    _, _, maps = load_shots([picture, picture], {"scribbles": strokes}, None)
    assert (maps[0] == 1).sum() == 0
    for wrong, sentence in (([[0.2, 7.0]], "soft mask"), ([[-2, 1]], "holds -2")):
        with pytest.raises(ValueError, match=sentence):
            as_masks([np.array(wrong)], 1)
    with pytest.raises(ValueError, match=r"holds 1\.5"):
        as_masks([np.array([[1.5, 1.0]])], 2)


def test_one_picture_of_two_classes_in_any_order():
    picture = np.zeros((4, 6, 3), np.uint8)
    cat, dog = np.zeros((4, 6), np.uint8), np.zeros((4, 6), np.uint8)
    cat[:2], dog[:2, 3:], dog[3] = 1, 255, 1
    for order in (("cat", "dog"), ("dog", "cat")):
        masks = {"cat": cat, "dog": dog}
        names, pictures, (ids,) = load_shots(
            dict.fromkeys(order, picture), {"masks": {name: masks[name] for name in order}}, None
        )
        assert len(pictures) == 1
        assert (ids == names.index("cat") + 1).sum() == 12
        assert (ids == names.index("dog") + 1).sum() == 6


@pytest.mark.parametrize("step", [None, 16])
def test_thin_marks_are_not_lost(step):
    mask = np.full((2000, 3000), 255, np.uint8)
    mask[1000:1003, 500:900] = 1
    mask[100:103] = 0
    where = geometry((2000, 3000), "clean", 321)
    labels = cell_labels(mask, where, (14, 21), step, 1)
    assert (labels[5:9] > 0.99).sum() > 0
    assert (labels == 0).sum() >= 21
    assert (labels == 255).sum() > 200
    ids = cell_labels(np.where(mask == 255, 0, mask * 2), where, (14, 21), step, 2)
    assert (ids == 2).sum() >= 1


def test_cells_on_pixels_are_labelled_by_what_is_around_them():
    mask = np.zeros((97, 97), np.uint8)
    mask[:36, :36] = 1
    labels = cell_labels(mask, geometry((97, 97), "clean", 97), (7, 7), 16, 1)
    assert labels[0, 0] == labels[1, 1] == 1  # pixels 0 and 16
    assert labels[2, 2] == pytest.approx(0.5625)  # 12 of the 16 pixels around 32, in both directions
    assert labels[3, 3] == 0


def test_names_and_boxes_that_are_wrong(pair):
    image, mask = pair[0]
    seg = Segmenter("filters")
    with pytest.raises(ValueError, match="different names"):
        seg.fit(image, mask, classes=("cat", "cat"))
    assert seg.fit(image, mask, classes="cat").classes == ("cat",)
    with pytest.raises(ValueError, match="must be \\(left, top, right, bottom\\)"):
        seg.fit(image, boxes=(1, 2, 3))
    seg.fit(image, boxes=[(10, 10, 60, 60), (100, 100, 150, 150)])
    with pytest.raises(ValueError, match=r"\(images, masks\)"):
        seg.fit({"a": [(image, mask)]})
    with pytest.raises(ValueError, match="size must be"):
        Segmenter("filters", size=-5)


def test_torch_keeps_its_threads(pair, fitted):
    """Also if a call begins in a new thread while another one is under way, and ends after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first = fitted.segment_many([pair[1].image] * 4, batch=2)
        next(first)
        seen = []

        def other():
            seen.append(len(list(fitted.segment_many([pair[1].image] * 2, batch=2))))

        run_in_thread(other)
        assert seen == [2]
        assert len(list(first)) == 3
        run_in_thread(lambda: seen.append(torch.get_num_threads()))
        assert seen == [2, 2]
    finally:
        torch.set_num_threads(before)


def run_in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_fitting_anew_leaves_what_is_under_way(pair):
    (image, mask), (query, _) = pair
    seg = Segmenter("filters", refine=False).fit(image, mask)
    expected = seg.segment(query).mask
    found = []
    for result in seg.segment_many([query] * 6, batch=2):
        found.append(result.mask)
        seg.fit({"a": (image, mask), "b": (image, 1 - mask)})
    assert all(np.array_equal(mask, expected) for mask in found)


@pytest.mark.parametrize("joint", [True, False])
def test_an_absent_class_leaves_its_pixels_to_the_others(joint):
    seg = Segmenter("filters", joint=joint)
    halves = np.repeat(np.array([[1, 2]], np.uint8), 48, 0).repeat(32, 1)
    seg.fit_maps([np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)], [halves], ("cat", "dog"))
    free, given = (shares_of(p, seg.classes) for p in (None, {"cat": 0.2, "dog": 0.2}))
    claims = torch.tensor([0.4, 0.55])[:, None, None] if joint else torch.tensor([0.9, 0.95])[:, None, None]
    shares, presence = torch.tensor([0.2, 0.3]), torch.tensor([0.9, 0.2])
    probability, proportion, _ = seg._fitted.one_map(claims, shares, presence, free)
    assert probability[0].item() == pytest.approx(0.4 / 0.45 if joint else 0.9)
    assert probability[1].item() == proportion[1].item() == 0
    probability, proportion, _ = seg._fitted.one_map(claims, shares, presence, given)
    assert (probability > 0).all()
    assert (probability.sum(0) <= 1 + 1e-6).all()
    assert torch.equal(proportion, shares)


def test_a_class_that_is_not_there_is_not_marked():
    """Of a person and a texture, only the person is in the photograph, and only it gets pixels."""
    (support, query), *_ = photographs()
    scene = scenes([0])[0][0]
    seg = Segmenter().fit({"person": (support.image, support.mask), "texture": (scene.image, scene.mask)})
    found = seg.segment(query.image)
    assert found.presence["person"] > 0.5 > found.presence["texture"]
    assert (found.mask == 1).any()
    assert not (found.mask == 2).any()
    told = seg.segment(query.image, proportion={"person": 0.3, "texture": 0.1})  # who knows better is believed
    assert (told.mask == 2).any()


def test_presence_on_photographs_with_and_without_cats(test_data):
    """Five annotated cats: pictures with one score higher than pictures without."""
    data = open_dataset("pascal", str(test_data / "data" / "voc5i"), "val", "clean")
    index = class_index(data)
    cat = next(id for id, name in data.classes.items() if name == "cat")
    cats = class_lists(data, index)[cat]
    others = [s.id for s, count in zip(data.samples, index.of(cat), strict=True) if count == 0][::60][:20]
    shots = [data.pair(id) for id in cats[:5]]
    seg = Segmenter(refine=False).fit([p for p, _ in shots], [np.where(m == 255, 255, m == cat) for _, m in shots])
    with_cats, without = (
        np.array([found.presence for found in seg.segment_many([data[id].image for id in ids])])
        for ids in (cats[5:25], others)
    )
    assert (with_cats[:, None] > without).mean() > 0.8
    assert (with_cats > 0.5).mean() > 0.6
    assert (without < 0.5).mean() > 0.6

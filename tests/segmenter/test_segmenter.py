"""Annotated images in, a fitted segmenter out."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from repri import InferenceConfig, RepriError, Segmenter, load_extractor
from repri.methods import Training, build_method, save_method
from repri.models.heads.discriminant import Discriminant, Moments

from .make import iou


def test_the_object_is_segmented(pair, fitted):
    result = fitted.segment(pair[1].image)
    assert result.mask.shape == pair[1].mask.shape
    assert result.mask.dtype == np.uint8
    assert result.probability.shape == pair[1].mask.shape
    assert result.probability.dtype == np.float32
    assert iou(result.mask, pair[1].mask) > 0.6
    assert np.array_equal(result.mask == 1, result.probability > 0.5)
    assert 0 < result.proportion < 1
    assert 0 < result.confidence <= 1


def test_the_direction_of_backgrounds_is_used_if_the_extractor_knows_it(pair, extractor):
    cells = extractor.extract(torch.from_numpy(pair[0].image).movedim(-1, 0)[None] / 255)
    labels = F.interpolate(torch.from_numpy(pair[0].mask)[None, None].float(), cells.shape[-2:], mode="nearest")
    head, moments = Discriminant(extractor.widths, 16), Moments.empty(2, extractor.channels)
    for label in (0, 1):
        moments.add(head.unit(cells)[0].flatten(1).T[labels.flatten() == label], label)
    head.fit(moments)
    headed = load_extractor("filters", head=head)
    headed.whitening = lambda features: F.normalize(features.float(), dim=0)
    segmenter = Segmenter(headed, refine="none", auto=False)
    assert segmenter.inference.config.background == "known"
    result = segmenter.fit(pair[0].image, pair[0].mask).segment(pair[1].image)
    assert iou(result.mask, pair[1].mask) > 0.6
    assert Segmenter(headed, config={"preset": "clean", "lr": 0.01}, auto=False).inference.config.lr == 0.01
    assert Segmenter(headed, config="clean", auto=False).inference.config.background == "both"
    assert Segmenter(headed, config=InferenceConfig(steps=3), auto=False).inference.config.steps == 3
    assert Segmenter("filters").inference.config.background == "both"
    with pytest.raises(RepriError, match="need an extractor that knows the direction of backgrounds, and filters does"):
        _ = Segmenter("filters", config="discriminant").inference


def test_any_registered_method_segments(pair, extractor):
    fitted = Segmenter(extractor, method="prototype", refine="none", auto=False).fit(pair[0].image, pair[0].mask)
    result = fitted.segment(pair[1].image)
    assert iou(result.mask, pair[1].mask) > 0.4
    assert result.proportion == pytest.approx(result.probability.mean(), abs=0.02)
    with pytest.raises(
        RepriError, match="repri-oracle must be told the true proportion: use repri, and give proportion"
    ):
        _ = Segmenter(extractor, method="repri-oracle", auto=False).inference
    with pytest.raises(RepriError, match="There is no method named 'repry', did you mean 'repri'"):
        Segmenter(extractor, method="repry", auto=False).fit(pair[0].image, pair[0].mask)


def test_every_kind_of_mask_means_the_same(pair, extractor, fitted, tmp_path):
    from PIL import Image

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
    expected = fitted.shots.labels[0]
    for kind in kinds:
        assert torch.equal(Segmenter(extractor, auto=False).fit(image, kind).shots.labels[0], expected)


def test_shots_of_different_sizes(pair, extractor):
    (image, mask), (query, truth) = pair
    fitted = Segmenter(extractor, refine="none", auto=False).fit([image, image[:180]], [mask, mask[:180]])
    assert iou(fitted.segment(query).mask, truth) > 0.5


@pytest.mark.parametrize("joint", [True, False])
def test_several_classes_make_one_map(two_classes, joint):
    images, masks, query, truth = two_classes
    segmenter = Segmenter("filters", refine="none", joint=joint, size=192, auto=False)
    fitted = segmenter.fit({"a": images[0], "b": images[1]}, {"a": masks[0], "b": masks[1]})
    assert fitted.classes == ("a", "b")
    result = fitted.segment(query)
    assert result.classes == ("a", "b")
    assert set(result.proportions) == set(result.presences) == {"a", "b"}
    assert (sum(result.probabilities.values()) <= 1 + 1e-5).all()
    assert (result.mask == truth).mean() > 0.75
    numbered = segmenter.fit(images, [masks[0], 2 * masks[1]], classes=("a", "b")).segment(query)
    assert np.array_equal(numbered.mask, result.mask)
    paired = segmenter.fit({"a": (images[0], masks[0]), "b": (images[1], masks[1])}).segment(query)
    assert np.array_equal(paired.mask, result.mask)


def test_boxes_and_scribbles(pair, extractor):
    (image, mask), (query, truth) = pair
    rows, columns = np.nonzero(mask.any(1))[0], np.nonzero(mask.any(0))[0]
    box = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    segmenter = Segmenter(extractor, refine="none", auto=False)
    assert iou(segmenter.fit(image, boxes=box).segment(query).mask, truth) > 0.4
    assert iou(segmenter.fit([image], boxes=[[box]]).segment(query).mask, truth) > 0.4
    scribble = np.full(mask.shape, 255, np.uint8)
    middle = (rows[0] + rows[-1]) // 2
    scribble[middle - 3 : middle + 3] = mask[middle - 3 : middle + 3]
    scribble[:4] = 0
    assert iou(segmenter.fit(image, scribbles=scribble).segment(query).mask, truth) > 0.4


@pytest.mark.parametrize(
    "options", [{"mirror": True}, {"shifts": 2}, {"scales": (0.8, 1.2)}, {"tile": 150}, {"refine": "guided"}]
)
def test_other_ways_to_look(pair, extractor, options):
    (image, mask), (query, truth) = pair
    result = Segmenter(extractor, **{"refine": "none", "auto": False} | options).fit(image, mask).segment(query)
    assert result.mask.shape == truth.shape
    assert 0 <= result.probability.min() <= result.probability.max() <= 1
    assert iou(result.mask, truth) > 0.5


def test_a_mirror_image_gives_the_mirrored_mask(pair, extractor):
    (image, mask), (query, _) = pair
    fitted = Segmenter(extractor, refine="none", mirror=True, auto=False).fit(image, mask)
    plain, turned = (fitted.segment(q).probability for q in (query, query[:, ::-1]))
    np.testing.assert_allclose(turned[:, ::-1], plain, atol=0.02)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (lambda i, m: ([], []), "There is no support: give at least one annotated image"),
        (lambda i, m: (i, None), "Give one of masks, boxes or scribbles, got none"),
        (lambda i, m: ([i, i], [m]), "There are 2 images and 1 masks: give one for each image"),
        (lambda i, m: (i, m * 0), "No mask shows 'object': mark it in at least one image"),
        (lambda i, m: (i, m[:50]), "a mask must have the size of its image"),
        (lambda i, m: (i, m * 3), "The mask holds the value 3: it may hold 0 … 1, and 255 for unlabelled"),
        (lambda i, m: (i.astype(np.int32), m), "An image is uint8 or float, got int32"),
        (lambda i, m: (i[..., :2], m), r"An image is an array \[H, W, 3\] or \[H, W\], got shape \[256, 256, 2\]"),
        (lambda i, m: ({"a": i}, {"b": m}), 'Several classes are given as {"cat": images, "dog": images} and masks'),
        (lambda i, m: ({"a": [(i, m)]},), r'Several classes without masks are given as {"cat": \(images, masks\), …}'),
        (lambda i, m: ("missing.jpg", m), "missing.jpg does not exist"),
    ],
)
def test_mistakes_in_the_support(pair, arguments, sentence):
    with pytest.raises(RepriError, match=sentence):
        Segmenter("filters").fit(*arguments(*pair[0]))


def test_names_and_boxes_that_are_wrong(pair, extractor):
    image, mask = pair[0]
    segmenter = Segmenter(extractor, auto=False)
    assert segmenter.fit(image, mask, classes="cat").classes == ("cat",)
    segmenter.fit(image, boxes=[(10, 10, 60, 60), (100, 100, 150, 150)])
    for options, sentence in (
        ({"masks": mask, "classes": ("cat", "cat")}, "The classes must have different names, got cat, cat"),
        ({"boxes": (1, 2, 3)}, r"The box .* must be \(left, top, right, bottom\) inside 256×256 pixels"),
        ({"boxes": (10, 10, 5, 40)}, r"The box \(10\.0, 10\.0, 5\.0, 40\.0\) of image 1 must be"),
        ({"masks": mask, "boxes": (1, 2, 3, 4)}, "Give one of masks, boxes or scribbles, got masks and boxes"),
        ({"boxes": (1, 2, 30, 40), "classes": ("cat", "dog")}, "Boxes are for a single class"),
    ):
        with pytest.raises(RepriError, match=sentence):
            segmenter.fit(image, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"scales": 5}, "scales must be factors above 0, got 5"),
        ({"textures": "a"}, "textures is a weight between 0 and 1, got 'a'"),
        ({"scales": ()}, r"scales must be factors above 0, got \(\)"),
        ({"scales": (0.5, -1)}, r"scales must be factors above 0, got \(0.5, -1\)"),
        ({"refine": True}, "refine is a name such as 'guided' or 'none', got True"),
        ({"refine": "gided"}, "There is no refinement named 'gided', did you mean 'guided'"),
        ({"config": 3}, "config must be a preset's name, an InferenceConfig or changes, got 3"),
    ],
)
def test_mistakes_that_need_no_extractor_are_found_at_once(options, sentence):
    with pytest.raises(RepriError, match=sentence):
        Segmenter("filters", **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"size": -5}, "size must be at least 4 pixels, got -5"),
        ({"tile": 3}, "tile must be at least 8 pixels, got 3"),
        ({"config": {"stepps": 3}}, "There is no inference setting named 'stepps', did you mean 'steps'"),
        ({"config": "clear"}, "There is no preset named 'clear', did you mean 'clean'"),
    ],
)
def test_mistakes_that_need_the_extractor_are_found_by_fit(pair, extractor, options, sentence):
    with pytest.raises(RepriError, match=sentence):
        Segmenter(extractor, **options).fit(*pair[0])


def test_only_a_fitted_segmenter_segments(pair):
    for call in (Segmenter("filters").segment, Segmenter("filters").segment_many):
        with pytest.raises(RepriError, match="This Segmenter has no support: call fit and use the fitted segmenter"):
            call(pair[1].image)


def test_parameters_are_read_and_set_as_in_scikit_learn(extractor):
    segmenter = Segmenter(extractor, size=64, scales=(1.0, 1.5), auto=False)
    params = segmenter.get_params()
    assert list(params)[:4] == ["extractor", "method", "config", "size"]
    assert (params["extractor"], params["size"], params["scales"]) == (extractor, 64, (1.0, 1.5))
    assert segmenter.set_params(size=96, refine="none") is segmenter
    assert (segmenter.get_params()["size"], segmenter.refine) == (96, "none")
    with pytest.raises(RepriError, match=r"A Segmenter has no parameter 'sise'\. Known: extractor, method"):
        segmenter.set_params(sise=3)
    assert repr(Segmenter("filters", size=64)) == "Segmenter(extractor='filters', size=64)"
    before = Segmenter("filters").feature_extractor
    changed = Segmenter("filters").set_params(shifts=2).feature_extractor
    assert changed.stride == before.stride // 2


@pytest.mark.parametrize(
    "options",
    [{}, {"config": {"preset": "clean", "lr": 0.01}, "scales": [0.8, 1.2]}, {"config": InferenceConfig(steps=3)}],
)
def test_it_can_be_cloned(options):
    """As scikit-learn's ``clone`` does it: built from copies of the parameters, which must be kept as they are."""
    segmenter = Segmenter("filters", **options)
    given = {name: copy.deepcopy(value) for name, value in segmenter.get_params(deep=False).items()}
    built = Segmenter(**given)
    kept = built.get_params(deep=False)
    assert all(kept[name] is value for name, value in given.items())
    assert kept == segmenter.get_params()
    try:
        from sklearn.base import clone
    except ImportError:
        return
    assert clone(segmenter).get_params() == segmenter.get_params()


def test_fitting_anew_leaves_the_fitted_one_alone(pair, extractor):
    (image, mask), (query, _) = pair
    segmenter = Segmenter(extractor, refine="none", auto=False)
    fitted = segmenter.fit(image, mask)
    expected = fitted.segment(query).mask
    results = []
    for result in fitted.segment_many([query] * 6, batch=2):
        results.append(result.mask)
        segmenter.set_params(mirror=True).fit({"a": (image, mask), "b": (image, 1 - mask)})
    assert all(np.array_equal(mask, expected) for mask in results)


def test_learned_methods_segment_too(pair, extractor, tmp_path):
    """By name, and by the file of a trained one; saved and loaded they give the same mask to the bit."""
    method = build_method("ppnet", settings={"width": 256})
    method.start(extractor.widths)
    method.training = Training("filters", extractor.identity, extractor.widths, (), 1, 3)
    file = tmp_path / "method.safetensors"
    save_method(file, method)
    masks = []
    for chosen in ({"method": "ppnet", "weights": file}, {"method": str(file)}, {"method": "pmm"}):
        fitted = Segmenter(extractor, refine="none", **chosen).fit(pair[0].image, pair[0].mask)
        result = fitted.segment(pair[1].image)
        assert iou(result.mask, pair[1].mask) > 0.5
        fitted.save(tmp_path / "fitted.safetensors")
        again = Segmenter.load(tmp_path / "fitted.safetensors", extractor)
        assert np.array_equal(again.segment(pair[1].image).probability, result.probability)
        masks.append(result.mask)
    assert np.array_equal(masks[0], masks[1])
    with pytest.raises(RepriError, match="pfenet has to be trained before it can be used"):
        Segmenter(extractor, method="pfenet").fit(pair[0].image, pair[0].mask)
    with pytest.raises(RepriError, match="was trained on features of filters, and lowlevel here has other weights"):
        Segmenter("lowlevel", method=str(file)).fit(pair[0].image, pair[0].mask)


def test_several_classes_by_methods_that_take_one(two_classes, extractor):
    """No probability exceeds 1 where the classes do not compete in one classifier."""
    images, masks, query, _ = two_classes
    support = {"a": (images[0], masks[0]), "b": (images[1], masks[1])}
    result = Segmenter(extractor, method="ppnet", refine="none").fit(support).segment(query)
    total = sum(result.probabilities.values())
    assert total.max() <= 1 + 1e-5
    assert total.max() > 0.5
    assert result.mask.any()

"""A fitted segmenter: any number of images of any kind, and it never changes."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from PIL import Image

from repri import RepriError, Segmenter
from tests.regions.make import ColourRegions


def test_every_kind_of_image_gives_the_same(pair, fitted, tmp_path):
    image = pair[1].image
    Image.fromarray(image).save(tmp_path / "query.png")
    tensor = torch.from_numpy(image).movedim(-1, 0)
    kinds = [str(tmp_path / "query.png"), tmp_path / "query.png", Image.fromarray(image), tensor, tensor.float() / 255]
    expected = fitted.segment(image).probability
    for result in fitted.segment_many([*kinds, image.astype(np.float64) / 255], batch=4):
        np.testing.assert_allclose(result.probability, expected, atol=1e-5)


def test_many_are_as_one_at_a_time(pair, fitted):
    images = [pair[1].image, pair[0].image, pair[1].image[:200], pair[1].image[:, :180], pair[1].image]
    together = list(fitted.segment_many(images, batch=3))
    for image, result in zip(images, together, strict=True):
        alone = fitted.segment(image)
        assert result.mask.shape == image.shape[:2]
        np.testing.assert_allclose(result.probability, alone.probability, atol=2e-3)
    assert [result.source for result in together] == [f"image {n}" for n in range(1, 6)]


def test_a_stream_is_taken_as_it_comes(pair, fitted):
    taken = []

    def stream():
        for i in range(1000):
            taken.append(i)
            yield pair[1].image

    results = fitted.segment_many(stream(), batch=2)
    next(results)
    results.close()
    assert len(taken) < 60


def test_images_that_cannot_be_used_are_reported(pair, fitted, tmp_path):
    (tmp_path / "bad.jpg").write_text("not an image")
    problems = []
    images = [pair[1].image, tmp_path / "bad.jpg", pair[1].image]
    results = list(fitted.segment_many(images, on_error=lambda name, error: problems.append((name, error))))
    assert len(results) == 2
    ((name, error),) = problems
    assert name == str(tmp_path / "bad.jpg")
    assert isinstance(error, RepriError)
    with pytest.raises(RepriError, match=r"bad\.jpg cannot be read as an image"):
        list(fitted.segment_many(images))


def test_a_pillow_image_that_cannot_be_read(pair, fitted, tmp_path):
    Image.fromarray(pair[1].image).save(tmp_path / "cut.png")
    content = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(content[: len(content) // 3])
    problems = []
    with Image.open(tmp_path / "cut.png") as image:
        results = list(fitted.segment_many([image, pair[1].image], on_error=lambda *facts: problems.append(facts)))
    assert len(results) == len(problems) == 1
    assert "A Pillow image cannot be read" in str(problems[0][1])


def test_exif_turns_images(pair, fitted, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.ascontiguousarray(np.rot90(pair[1].image[:200]))).save(tmp_path / "turned.png", exif=exif)
    result = fitted.segment(tmp_path / "turned.png")
    assert result.mask.shape == (200, pair[1].image.shape[1])
    assert np.array_equal(result.mask, fitted.segment(pair[1].image[:200]).mask)


def test_a_known_size_is_kept(pair, fitted):
    for told in (0.1, 0.3):
        result = fitted.segment(pair[1].image, proportion=told)
        assert result.proportion == pytest.approx(told)
        assert result.probability.mean() == pytest.approx(told, abs=0.1)
    usual = fitted.segment(pair[1].image)
    low = fitted.segment(pair[1].image, proportion=(0.01, 0.05))
    assert low.proportion == pytest.approx(0.05)
    assert low.mask.mean() < usual.mask.mean()
    free = fitted.segment(pair[1].image, proportion=(0.001, 0.999))
    assert np.array_equal(free.mask, usual.mask)


def test_it_never_changes(pair, extractor):
    image, mask = pair[0].image.copy(), pair[0].mask.copy()
    segmenter = Segmenter(extractor, refine="none", auto=False)
    fitted = segmenter.fit(image, mask)
    expected = fitted.segment(pair[1].image).mask
    for name, value in (("classes", ("x",)), ("refine", "guided"), ("shots", None)):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            setattr(fitted, name, value)
    with pytest.raises(FrozenInstanceError):
        fitted.look.size = 5
    image[:], mask[:] = 0, 0
    segmenter.set_params(refine="guided", config="original", size=64)
    assert np.array_equal(fitted.segment(pair[1].image).mask, expected)


def test_similarity_is_higher_where_the_object_is(pair, fitted):
    with_it, without = (fitted.similarity(image) for image in (pair[1].image, np.full((64, 64, 3), 128, np.uint8)))
    assert set(with_it) == {"object"}
    assert with_it["object"] > without["object"]


def test_a_batch_has_at_least_one_image(pair, fitted):
    with pytest.raises(RepriError, match="batch must lie between 1 and 10000, got 0"):
        list(fitted.segment_many([pair[1].image], batch=0))
    with pytest.raises(RepriError, match="segment_many takes several images, got int: segment takes one"):
        list(fitted.segment_many(5))


@pytest.mark.parametrize("options", [{"auto": False}, {"textures": 0.5}])
@pytest.mark.parametrize("proportion", [None, 0.2, (0.3, 0.4)])
def test_kept_cells_give_the_same_result_to_the_bit(pair, extractor, options, proportion):
    """The cells are computed once, kept as features alone, and used by the fit and by the result."""
    images = [np.ascontiguousarray(item.image) for item in pair]
    first = Segmenter(extractor, **options).fit(images[0], pair[0].mask)
    kept = [first.look.see(image).features for image in images]

    def seen(place, look):
        return look.recall(images[place].shape[:2], kept[place])

    again = Segmenter(extractor, **options).fit_maps(images[:1], [pair[0].mask], ["object"], seen)
    wanted = first.segment(images[1], proportion)
    got = again.segment_seen(images[1], seen(1, first.look), proportion)
    assert (got.probability == wanted.probability).all()
    assert (got.mask == wanted.mask).all()
    assert (got.confidence, got.presence, got.proportion) == (wanted.confidence, wanted.presence, wanted.proportion)


def test_cells_of_another_look_are_refused(pair, fitted):
    seen = fitted.look.see(pair[1].image)
    with pytest.raises(RepriError, match="look again"):
        fitted.segment_seen(pair[1].image[:100], seen)
    mirrored = replace(fitted, look=replace(fitted.look, mirror=True))
    with pytest.raises(RepriError, match="no mirror images"):
        mirrored.segment_seen(pair[1].image, seen)


def test_regions_are_not_used_where_textures_count(pair, extractor, tmp_path, monkeypatch):
    for part in ("encoder", "decoder"):
        (tmp_path / f"{part}.onnx").write_bytes(b"")
    model = ColourRegions()
    monkeypatch.setattr("repri.regions.load.load_regions", lambda name: model)
    shown, query = pair[0], pair[1].image
    parameters = {"extractor": extractor, "textures": 0.7}
    with_regions = Segmenter(**parameters, refine="regions", regions=str(tmp_path)).fit(shown.image, shown.mask)
    plain = Segmenter(**parameters).fit(shown.image, shown.mask)
    assert np.array_equal(with_regions.segment(query).mask, plain.segment(query).mask)
    assert model.encoded == 0
    objects = replace(with_regions, textures=None)
    assert set(objects.segment(query).regions) == {"object"}
    assert model.encoded == 1

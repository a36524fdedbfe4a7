"""The feature store: once per image, safe, bounded, never stale."""

import hashlib
import threading
import zlib
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load, save

from repri.features.store import FeatureStore, default_budget
from repri.models.extractors.headed import HeadedExtractor
from repri.runtime.errors import RepriError
from tests.make import Cells, noise
from tests.processes import no_more_than


@pytest.fixture
def images(tmp_path):
    paths = [tmp_path / "images" / f"{n}.png" for n in range(5)]
    for n, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(noise(40, 64 if n % 2 else 60, n)).save(path)
    return paths


def store(tmp_path, extractor, **options):
    return FeatureStore(extractor, folder=tmp_path / "cache", **options)


def test_each_image_is_computed_once(tmp_path, images):
    extractor = Cells()
    first = store(tmp_path, extractor)
    seen = []
    assert first.prepare(images, lambda *p: seen.append(p)) == 5
    assert seen[0] == (0, 5)
    assert seen[-1] == (5, 5)
    features = [first.get(path) for path in images]
    again = store(tmp_path, extractor)
    assert again.prepare(images) == 0
    assert all(torch.equal(a, again.get(path)) for a, path in zip(features, images, strict=True))
    assert extractor.calls == 5
    assert features[0].dtype == torch.float16
    assert features[0].shape == (4, 6, 8)
    exact = store(tmp_path, extractor, precision="single")
    assert (exact.get(images[0]) - features[0]).abs().max() < 1e-3


def test_nothing_stale_is_read(tmp_path, images):
    """Another extractor, size, rule or image is another file; the same image elsewhere is the same."""
    extractor = Cells()
    store(tmp_path, extractor).prepare(images)
    for other in (
        store(tmp_path, Cells(mark="b")),
        store(tmp_path, extractor, size=72),
        store(tmp_path, extractor, resize="square"),
    ):
        assert other.prepare(images[:1]) == 1
    copy = tmp_path / "copy.png"
    copy.write_bytes(images[0].read_bytes())
    assert store(tmp_path, extractor).prepare([copy]) == 0
    Image.fromarray(noise(40, 60, 99)).save(copy)
    assert store(tmp_path, extractor).prepare([copy]) == 1


def test_names_of_folders_never_change():
    """They hold the features of earlier versions, which took hours."""
    for resize, rule in (("aspect", "clean"), ("square", "paper"), ("letterbox", "official")):
        for precision, dtype in (("half", "torch.float16"), ("single", "torch.float32")):
            facts = repr(("a", rule, 64, 8, dtype))
            folder = FeatureStore(Cells(), resize, folder=Path("x"), precision=precision).folder
            assert folder == Path("x") / "features" / hashlib.sha256(facts.encode()).hexdigest()[:24]
    plain = FeatureStore(Cells(on_pixels=True), "letterbox", folder=Path("x")).folder
    assert plain.name == hashlib.sha256(repr(("a", "official", 64, None, "torch.float16")).encode()).hexdigest()[:24]


def test_images_without_a_file_are_listed(tmp_path, images):
    filled = store(tmp_path, Cells())
    filled.prepare(images[:2])
    assert filled.lacking([*images, images[4]]) == images[2:]


def test_damaged_files_are_redone(tmp_path, images):
    extractor = Cells()
    filled = store(tmp_path, extractor)
    filled.prepare(images)
    files = sorted(filled.folder.rglob("*.safetensors"))
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[:-10])
    files[1].write_bytes(whole[:-3] + b"xyz")
    files[2].write_bytes(b"")
    again = store(tmp_path, extractor)
    assert again.prepare(images) == 3
    assert extractor.calls == 8
    files[3].write_bytes(files[3].read_bytes()[:-1])
    assert all(again.get(path).isfinite().all() for path in images)


def test_the_checksum_covers_type_and_shape(tmp_path, images):
    """The same bytes read as other numbers, or in another shape, are damage; files of former versions are used."""
    extractor = Cells()
    filled = store(tmp_path, extractor)
    filled.prepare(images)
    files = sorted(filled.folder.rglob("*.safetensors"))
    for file, old, new in ((files[0], b'"F16"', b'"I16"'), (files[1], b"[4,5,8]", b"[4,8,5]")):
        content = file.read_bytes()
        assert old in content
        file.write_bytes(content.replace(old, new))
    features = load(files[2].read_bytes())["features"]
    former = str(zlib.crc32(features.view(torch.uint8).numpy().tobytes()))
    files[2].write_bytes(save({"features": features}, {"crc": former}))
    files[3].write_bytes(save({"features": features.view(torch.bfloat16)}, {"crc": former}))
    assert store(tmp_path, extractor).prepare(images) == 3


def test_an_interrupted_run_goes_on(tmp_path, images):
    class Breaking(Cells):
        def _forward(self, images):
            if self.calls == 3:
                raise KeyboardInterrupt
            return super()._forward(images)

    extractor = Breaking()
    with pytest.raises(KeyboardInterrupt):
        store(tmp_path, extractor).prepare(images)
    extractor = Cells()
    assert store(tmp_path, extractor).prepare(images) == 2


def test_the_budget_evicts_the_least_recently_used(tmp_path, images):
    extractor = Cells()
    one = 4 * 6 * 8 * 2
    filled = store(tmp_path, extractor)
    filled.prepare(images)
    each = next(filled.folder.rglob("*.safetensors")).stat().st_size
    other = store(tmp_path, Cells(mark="b"), budget=each * 6)
    other.prepare(images[:3])
    total = sum(f.stat().st_size for f in (tmp_path / "cache").rglob("*.safetensors"))
    assert total <= each * 6 + 3 * (each - one)
    assert other.prepare(images[:3]) == 0
    with pytest.raises(RepriError, match=r"features of 5 images take .* GB and the store may hold .* GB"):
        store(tmp_path, Cells(mark="c"), budget=one * 4).prepare(images)


def test_the_part_of_another_process_is_not_evicted(tmp_path, images):
    first, second = store(tmp_path, Cells()), store(tmp_path, Cells())
    first.prepare(images, mine=lambda items: items[::2])
    second.budget = 5 * 4 * 6 * 8 * 2  # the features alone, without their files' headers: too little for all of them
    assert second.prepare(images, mine=lambda items: items[1::2]) == 2
    assert first.prepare(images) == 0


def test_two_writers_at_once(tmp_path, images):
    extractors = [Cells(), Cells()]
    threads = [threading.Thread(target=store(tmp_path, e).prepare, args=(images,)) for e in extractors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store(tmp_path, Cells()).prepare(images) == 0


def test_files_that_others_remove_meanwhile(tmp_path, images, monkeypatch):
    """Another process may make room in the same folder at the same time."""
    filled = store(tmp_path, Cells())
    filled.prepare(images)
    each = next(filled.folder.rglob("*.safetensors")).stat().st_size
    listed = Path.rglob

    def raced(folder, pattern):
        for place, file in enumerate(listed(folder, pattern)):
            if place % 2:
                file.unlink()
            yield file

    monkeypatch.setattr(Path, "rglob", raced)
    other = store(tmp_path, Cells(mark="b"), budget=each * 5)
    assert other.prepare(images[:2]) == 2


def test_the_backbone_of_two_heads_runs_once(tmp_path, images):
    under = Cells()
    heads = [HeadedExtractor(under, head, rounds=True) for head in (torch.nn.Conv2d(4, n, 1) for n in (2, 3))]
    features = []
    for extractor in heads:
        filled = store(tmp_path, extractor)
        assert filled.prepare(images) == 5
        features.append(filled.get(images[0]))
    assert under.calls == 5
    assert store(tmp_path, under).prepare(images) == 0
    each = sum(f.stat().st_size for f in (tmp_path / "cache").rglob("*.safetensors")) // 15
    small = store(tmp_path / "other", heads[1], budget=each * 5)
    assert small.prepare(images) == 5  # there is no room for what lies under the head, which is no mistake
    assert torch.equal(small.get(images[0]), features[1])
    assert not list(store(tmp_path / "other", under).folder.rglob("*"))


def test_a_full_disk_is_reported(tmp_path, images):
    with no_more_than(100), pytest.raises(ValueError, match=r"[cC]annot write .* make room and run it again"):
        store(tmp_path, Cells()).prepare(images)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_mistakes_are_named(tmp_path, images, monkeypatch):
    with pytest.raises(RepriError, match="multiples of 8, and the input has 65 pixels: set size to 64 or 72"):
        store(tmp_path, Cells(), resize="letterbox", size=65)
    with pytest.raises(RepriError, match=r"Cannot read the image .*none\.png: No such file"):
        store(tmp_path, Cells()).prepare([tmp_path / "none.png"])

    class Broken(Cells):
        def _forward(self, images):
            return super()._forward(images) * float("nan")

    with pytest.raises(RepriError, match=r"0\.png: cells gives features that are NaN or infinite: use single"):
        store(tmp_path, Broken(mark="nan")).prepare(images)
    monkeypatch.setenv("REPRI_STORE_GB", "much")
    with pytest.raises(RepriError, match="REPRI_STORE_GB must be a number of gigabytes, got 'much'"):
        default_budget()

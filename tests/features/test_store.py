"""The feature store: once per image, safe, bounded, never stale."""

import threading
from pathlib import Path

import pytest
import torch

from repri.features.extractor import FeatureExtractor, InputRule
from repri.features.store import FeatureStore, default_budget
from repri.models.extractors.headed import HeadedExtractor
from tests.data.make import save_picture
from tests.processes import no_more_than


class Counting(FeatureExtractor):
    """Four channels, cells of 8 pixels; counts what it is asked."""

    name, channels, stride = "counting", 4, 8
    rule = InputRule(64, 8)

    def __init__(self, mark="a"):
        self.mark, self.calls = mark, 0

    def _forward(self, images):
        self.calls += len(images)
        cells = torch.nn.functional.avg_pool2d(images, 8)
        return torch.cat([cells, cells.mean(1, keepdim=True)], 1)

    @property
    def fingerprint(self):
        return self.mark


@pytest.fixture
def images(tmp_path):
    paths = [tmp_path / "images" / f"{n}.png" for n in range(5)]
    for n, path in enumerate(paths):
        save_picture(path, 40, 64 if n % 2 else 60, n)
    return paths


def store(tmp_path, extractor, **options):
    return FeatureStore(extractor, folder=tmp_path / "cache", **options)


def test_each_image_is_computed_once(tmp_path, images):
    extractor = Counting()
    first = store(tmp_path, extractor)
    seen = []
    assert first.prepare(images, lambda *p: seen.append(p), batch=2) == 5
    assert seen[0] == (0, 5)
    assert seen[-1] == (5, 5)
    features = [first.get(path) for path in images]
    again = store(tmp_path, extractor)
    assert again.prepare(images) == 0
    assert all(torch.equal(a, again.get(path)) for a, path in zip(features, images, strict=True))
    assert extractor.calls == 5
    assert features[0].dtype == torch.float16
    assert features[0].shape == (4, 6, 8)
    exact = store(tmp_path, extractor, precision=torch.float32)
    assert (exact.get(images[0]) - features[0]).abs().max() < 1e-3


def test_nothing_stale_is_found(tmp_path, images):
    """Another extractor, size, rule or picture is another file; the same picture elsewhere is the same."""
    extractor = Counting()
    store(tmp_path, extractor).prepare(images)
    for other in (
        store(tmp_path, Counting("b")),
        store(tmp_path, extractor, size=72),
        store(tmp_path, extractor, rule="paper"),
    ):
        assert other.prepare(images[:1]) == 1
    copy = tmp_path / "copy.png"
    copy.write_bytes(images[0].read_bytes())
    assert store(tmp_path, extractor).prepare([copy]) == 0
    save_picture(copy, 40, 60, 99)
    assert store(tmp_path, extractor).prepare([copy]) == 1


def test_damaged_files_are_redone(tmp_path, images):
    extractor = Counting()
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


def test_an_interrupted_run_goes_on(tmp_path, images):
    class Breaking(Counting):
        def _forward(self, images):
            if self.calls == 3:
                raise KeyboardInterrupt
            return super()._forward(images)

    extractor = Breaking()
    with pytest.raises(KeyboardInterrupt):
        store(tmp_path, extractor).prepare(images)
    extractor = Counting()
    assert store(tmp_path, extractor).prepare(images) == 2


def test_the_budget_evicts_the_least_recently_used(tmp_path, images):
    extractor = Counting()
    one = 4 * 6 * 8 * 2
    filled = store(tmp_path, extractor)
    filled.prepare(images)
    each = next(filled.folder.rglob("*.safetensors")).stat().st_size
    other = store(tmp_path, Counting("b"), budget=each * 6)
    other.prepare(images[:3])
    total = sum(f.stat().st_size for f in (tmp_path / "cache").rglob("*.safetensors"))
    assert total <= each * 6 + 3 * (each - one)
    assert other.prepare(images[:3]) == 0
    with pytest.raises(ValueError, match=r"features of 5 images take .* the store may hold"):
        store(tmp_path, Counting("c"), budget=one * 4).prepare(images)


def test_the_share_of_another_process_is_not_evicted(tmp_path, images):
    first, second = store(tmp_path, Counting()), store(tmp_path, Counting())
    first.prepare(images, share=lambda items: items[::2])
    second.budget = 5 * 4 * 6 * 8 * 2  # the features alone, without their files' headers: too little for all of them
    assert second.prepare(images, share=lambda items: items[1::2]) == 2
    assert first.prepare(images) == 0


def test_two_writers_at_once(tmp_path, images):
    extractors = [Counting(), Counting()]
    threads = [threading.Thread(target=store(tmp_path, e).prepare, args=(images,)) for e in extractors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store(tmp_path, Counting()).prepare(images) == 0


def test_files_that_others_remove_meanwhile(tmp_path, images, monkeypatch):
    """Another process may make room in the same folder at the same time."""
    filled = store(tmp_path, Counting())
    filled.prepare(images)
    each = next(filled.folder.rglob("*.safetensors")).stat().st_size
    listed = Path.rglob

    def raced(folder, pattern):
        for place, file in enumerate(listed(folder, pattern)):
            if place % 2:
                file.unlink()
            yield file

    monkeypatch.setattr(Path, "rglob", raced)
    other = store(tmp_path, Counting("b"), budget=each * 5)
    assert other.prepare(images[:2]) == 2


def test_the_backbone_of_two_heads_runs_once(tmp_path, images):
    under = Counting()
    heads = [HeadedExtractor(under, head, rounds=True) for head in (torch.nn.Conv2d(4, n, 1) for n in (2, 3))]
    found = []
    for extractor in heads:
        filled = store(tmp_path, extractor)
        assert filled.prepare(images) == 5
        found.append(filled.get(images[0]))
    assert under.calls == 5
    assert store(tmp_path, under).prepare(images) == 0
    each = sum(f.stat().st_size for f in (tmp_path / "cache").rglob("*.safetensors")) // 15
    small = store(tmp_path / "other", heads[1], budget=each * 5)
    assert small.prepare(images) == 5  # there is no room for what lies under the head, which is no mistake
    assert torch.equal(small.get(images[0]), found[1])
    assert not list(store(tmp_path / "other", under).folder.rglob("*"))


def test_a_full_disk_is_said(tmp_path, images):
    with no_more_than(100), pytest.raises(ValueError, match=r"cannot write .* make room and run it again"):
        store(tmp_path, Counting()).prepare(images)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_what_does_not_fit_is_said(tmp_path, images, monkeypatch):
    with pytest.raises(ValueError, match="takes multiples of 8 and the rule official pads to 65: use 64 or 72"):
        store(tmp_path, Counting(), rule="official", size=65)
    with pytest.raises(ValueError, match="cannot read the image"):
        store(tmp_path, Counting()).prepare([tmp_path / "none.png"])

    class Broken(Counting):
        def _forward(self, images):
            return super()._forward(images) * float("nan")

    with pytest.raises(ValueError, match=r"gives NaN or infinity for .*0\.png: take single precision or"):
        store(tmp_path, Broken("nan")).prepare(images)
    monkeypatch.setenv("REPRI_STORE_GB", "much")
    with pytest.raises(ValueError, match="REPRI_STORE_GB must be a number"):
        default_budget()

"""What is measured is what a user runs: the evaluation and the segmenter give the same pixel counts."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from repri import FeatureStore, Segmenter, evaluate, load_extractor, open_dataset, sample_tasks
from repri.data.datasets.index import class_index
from repri.evaluation.metrics import count_pixels
from tests.regions.make import ColourRegions

SIZE, PIXELS = 193, 300
"""Long side of the images here, and pixels of a class that the small images must have."""


@pytest.mark.parametrize("fold", [0, 2])
@pytest.mark.parametrize("shots", [1, 5])
def test_evaluation_and_segmenter_count_the_same_pixels(test_data, tmp_path, fold, shots):
    """On ten real tasks, as they are and with refined borders."""
    data = open_dataset("pascal", test_data / "data" / "fixture_voc")
    tasks = sample_tasks(data, data.novel(fold), shots, tasks=10, runs=1, index=class_index(data, PIXELS))
    extractor = load_extractor(f"default-fold{fold}")
    store = FeatureStore(extractor, size=SIZE, folder=tmp_path)
    measured = {refine: evaluate(data, tasks, extractor, refine=refine, store=store) for refine in ("none", "guided")}
    counted = {refine: [] for refine in measured}
    for task in tasks.runs[0]:
        images, masks = zip(*(data.pair(id) for id in (*task.support, task.query)), strict=True)
        maps = [np.where(ids == 255, 255, ids == task.class_id).astype(np.uint8) for ids in masks]
        fitted = Segmenter(extractor, size=SIZE, auto=False).fit_maps(
            images[:-1], maps[:-1], [data.classes[task.class_id]]
        )
        for refine, counts in counted.items():
            result = replace(fitted, refine=refine).segment(images[-1])
            counts.append(count_pixels(torch.from_numpy(result.mask == 1), torch.from_numpy(maps[-1])))
    for refine, outcome in measured.items():
        assert outcome.counts.pixels.tolist() == [list(counts) for counts in counted[refine]]
    assert counted["none"] != counted["guided"]


@pytest.mark.parametrize("method", ["panet", "pmm"])
def test_methods_that_look_at_masks_walk_the_same_road(test_data, tmp_path, method):
    """On three real tasks."""
    data = open_dataset("pascal", test_data / "data" / "fixture_voc")
    tasks = sample_tasks(data, data.novel(0), 2, tasks=3, runs=1, index=class_index(data, PIXELS))
    extractor = load_extractor("default-fold0")
    store = FeatureStore(extractor, size=SIZE, folder=tmp_path)
    measured = evaluate(data, tasks, extractor, method, refine="none", store=store)
    counted = []
    for task in tasks.runs[0]:
        images, masks = zip(*(data.pair(id) for id in (*task.support, task.query)), strict=True)
        maps = [np.where(ids == 255, 255, ids == task.class_id).astype(np.uint8) for ids in masks]
        segmenter = Segmenter(extractor, size=SIZE, method=method, refine="none")
        result = segmenter.fit_maps(images[:-1], maps[:-1], ["object"]).segment(images[-1])
        counted.append(list(count_pixels(torch.from_numpy(result.mask == 1), torch.from_numpy(maps[-1]))))
    assert measured.counts.pixels.tolist() == counted


def test_regions_walk_the_same_road(test_data, tmp_path, monkeypatch):
    """On three real tasks, with regions of one colour; only the evaluation keeps embeddings on disk."""
    model = ColourRegions()
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path))
    for part in ("encoder", "decoder"):
        (tmp_path / f"{part}.onnx").write_bytes(b"")
    monkeypatch.setattr("repri.regions.load.load_regions", lambda name: model)
    data = open_dataset("pascal", test_data / "data" / "fixture_voc")
    tasks = sample_tasks(data, data.novel(0), 1, tasks=3, runs=1, index=class_index(data, PIXELS))
    extractor, refine = load_extractor("default-fold0"), f"regions:{tmp_path}"
    store = FeatureStore(extractor, size=SIZE, folder=tmp_path)
    measured = evaluate(data, tasks, extractor, refine=refine, store=store)
    plain = evaluate(data, tasks, extractor, store=store)
    counted = []
    for task in tasks.runs[0]:
        (shot, query), masks = zip(*(data.pair(id) for id in (*task.support, task.query)), strict=True)
        maps = [np.where(ids == 255, 255, ids == task.class_id).astype(np.uint8) for ids in masks]
        segmenter = Segmenter(extractor, size=SIZE, auto=False, refine="regions", regions=str(tmp_path))
        result = segmenter.fit_maps([shot], maps[:1], ["object"]).segment(query)
        counted.append(list(count_pixels(torch.from_numpy(result.mask == 1), torch.from_numpy(maps[1]))))
        assert result.proportion == pytest.approx((result.mask == 1).mean(), abs=1e-6)
        assert set(result.regions) == {"object"}
        assert (result.instances()["object"] > 0).sum() <= (result.mask == 1).sum()
    assert measured.counts.pixels.tolist() == counted
    assert measured.counts.pixels.tolist() != plain.counts.pixels.tolist()
    assert model.encoded == 6

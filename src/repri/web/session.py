"""A project in use: its classifier, its results, and what has to be computed next."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from repri.runtime.errors import RepriError
from repri.segmenter import Fitted, Segmentation, Segmenter
from repri.segmenter.look import Look

from .cells import Cells, Recent
from .events import Events
from .limits import Refused
from .marks import Annotation
from .project import Project
from .record import Maps, Record, Stage, maps_of
from .settings import ProjectSettings
from .suggest import Summary, summary_of
from .support import Support, support_of, with_marks

__all__ = ["Fit", "Session"]

PAUSE = 1.0
"""Seconds without a stroke after which the support chooses its settings."""
REST = 60.0
"""Seconds after the last page has gone until nothing more is computed for nobody."""
PIXELS, MAPS = 200_000_000, 150_000_000
"""Bytes of decoded images and of maps that stay in memory."""
Step = Callable[[], None]


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted segmenter and the annotations that it is of."""

    version: int
    stage: Stage
    fitted: Fitted
    support: Support


class Session:
    """The live state of a project. Requests change it, and the worker carries out its next step.

    Args:
        project: The project.
        segmenter: Chooses settings by the support; without its choice it gives the quick answer.
        id: Name of the project in addresses.
    """

    def __init__(self, project: Project, segmenter: Segmenter, id: str = ""):
        self.id = id
        self.project, self.cells, self.events = project, Cells(project), Events(project.limits)
        self._thorough = segmenter
        self._quick = Segmenter(segmenter.feature_extractor, auto=False)
        self.look = Look(segmenter.feature_extractor, segmenter.feature_extractor.rule.size)
        self._lock = threading.RLock()
        self.version, self._changed, self._fitted_version = 0, time.monotonic(), -1
        self._settled_version, self._settling = -1, False
        self.fit: Fit | None = None
        self.records: dict[str, Record] = {}
        self.failed: dict[str, str] = {}
        self.seen: dict[str, Summary] = {}
        self._doubts: dict[str, Summary] = {}
        self.latencies: list[float] = []
        self._current: str | None = None
        self._visible: list[str] = []
        self._pixels: Recent[np.ndarray] = Recent(PIXELS, lambda image: image.nbytes)
        self._maps: Recent[Maps] = Recent(MAPS, _map_bytes)
        self.wake: Callable[[], None] = lambda: None

    # What requests do

    def annotate(self, id: str, annotation: Annotation) -> Annotation:
        """Keep the marks of an image and begin to segment anew."""
        began = time.monotonic()
        kept = self.project.annotate(id, annotation)
        if id in self.project.accepted:
            self.project.reject(id)
            self.events.publish("accepted", image=id, accepted=False)
        self._change(began)
        self.events.publish("annotated", image=id, annotated=not kept.empty, revision=kept.revision)
        return kept

    def change(self, settings: ProjectSettings) -> None:
        """Keep new settings and begin to segment anew."""
        gone = len(settings.classes) < len(self.project.settings.classes)
        if gone and any(
            mark.label > len(settings.classes)
            for id in self.project.annotated
            for mark in self.project.annotation(id).marks
            if mark.label < 255
        ):
            raise Refused(409, "A class that is marked in an image cannot be removed: erase its marks first.")
        self.project.change(settings)
        self._change(time.monotonic())
        self.events.publish("settings", **settings.model_dump())

    def watch(self, current: str | None, visible: list[str]) -> None:
        """Say which images a person looks at: they come first."""
        with self._lock:
            self._current = current if current in self.project.images else None
            self._visible = [id for id in visible if id in self.project.images]
        self.wake()

    def accept(self, ids: list[str], accepted: bool) -> list[str]:
        """Accept the results of images, or take that back; returns the images that are concerned."""
        done = []
        for id in ids:
            if not accepted:
                self.project.reject(id)
            elif id in self.records:
                record = self.records[id]
                mask = with_marks(self.project, id, record.mask)
                self.project.accept(id, mask, {"confidence": round(record.confidence, 4)})
            else:
                continue
            done.append(id)
            self.events.publish("accepted", image=id, accepted=accepted)
        return done

    def added(self) -> None:
        """Images were added."""
        self.events.publish("images", total=len(self.project.images))
        self.wake()

    # What the worker does

    def next_step(self) -> Step | None:
        """The most important piece of work, or None: the fit, the current image, those on screen, the rest."""
        if self.events.abandoned(REST):
            return None
        with self._lock:
            if self._fitted_version != self.version:
                return self._refit
            first = [id for id in [self._current, *self._visible] if id is not None]
            for id in [*dict.fromkeys(first), *self.project.images]:
                if id in self.failed:
                    continue
                if self._stale(id):
                    return lambda id=id: self._try(id, self._segment)
                if id not in self.seen:
                    return lambda id=id: self._try(id, self._see)
        return None

    def settle(self) -> float | None:
        """Let the support choose its settings, if nothing was drawn for a while. Takes seconds, so a second thread
        calls it. Returns the seconds until there may be something to do, or None."""
        with self._lock:
            fit, version = self.fit, self.version
            if fit is None or fit.version != version or self._settled_version == version or self.events.abandoned(REST):
                return None
            left = self._changed + PAUSE - time.monotonic()
            if left > 0:
                return left
            self._settled_version = version
        support = fit.support
        try:
            images = [self.pixels(id) for id in support.ids]
            fitted = self._thorough.fit_maps(images, support.maps, support.classes, self._kept(support))
        except RepriError as error:
            self.events.publish("problem", sentence=str(error))
            return None
        with self._lock:
            if self.version != version:
                return None  # somebody has drawn in the meantime
            self.fit = replace(fit, stage="full", fitted=fitted)
            choice = fitted.choice
            same = not (choice.weight or choice.size or choice.refine)  # the quick results stay
            for id, record in self.records.items() if same else ():
                if record.version == version:
                    self.records[id] = replace(record, stage="full")
        self._tell_fit(same)
        self.wake()
        return None

    def kept_maps(self, id: str) -> Maps | None:
        """The result of an image if it is there and up to date. Requests need not wait for the worker then."""
        fit, maps = self.fit, self._maps.get((id, self.project.settings.threshold))
        if fit is None or maps is None or (maps.record.version, maps.record.stage) != (fit.version, fit.stage):
            return None
        return maps

    def maps(self, id: str) -> Maps:
        """The result of an image, computed if it is not there. Only the worker calls this."""
        fit = self.fit
        if fit is None:
            raise Refused(409, "Nothing is marked yet: draw on an object first.")
        maps = self.kept_maps(id)
        if maps is None:
            start = time.perf_counter()
            result = self.segment(fit.fitted, id)
            spent = 1000 * (time.perf_counter() - start)
            threshold = self.project.settings.threshold
            maps = maps_of(result, fit.support, threshold, fit.version, fit.stage, spent)
            self._maps[(id, threshold)] = maps
        return maps

    def segment(self, fitted: Fitted, id: str, **options: Any) -> Segmentation:
        """The result of a fitted segmenter for an image, from kept cells."""
        return fitted.segment_seen(self.pixels(id), self.cells.get(id, fitted.look), source=id, **options)

    def summaries(self) -> dict[str, Summary]:
        """What is known of the images that are segmented; before that, of those whose features are there."""
        return dict(self._doubts) or dict(self.seen)

    def pixels(self, id: str) -> np.ndarray:
        """[H, W, 3] uint8."""
        image = self._pixels.get(id)
        if image is None:
            image = self.project.pixels(id)
            self._pixels[id] = image
        return image

    def progress(self) -> dict[str, Any]:
        """How far the work is."""
        total, fit = len(self.project.images) - len(self.failed), self.fit
        done = sum(not self._stale(id) for id in self.project.images if id not in self.failed) if fit else 0
        return {
            "images": total,
            "seen": len(self.seen),
            "segmented": done,
            "version": self.version,
            "stage": fit.stage if fit else None,
            "choice": str(fit.fitted.choice) if fit and fit.stage == "full" else None,
        }

    def _change(self, began: float) -> None:
        with self._lock:
            self.version += 1
            self._changed = began
        self.wake()

    def _stale(self, id: str) -> bool:
        fit, record = self.fit, self.records.get(id)
        if fit is None or id in self.project.accepted:
            return False
        return record is None or (record.version, record.stage) != (fit.version, fit.stage)

    def _refit(self) -> None:
        version = self.version
        try:
            support = support_of(self.project)
            if support is None:
                fit = None
            else:
                images = [self.pixels(id) for id in support.ids]
                fitted = self._quick.fit_maps(images, support.maps, support.classes, self._kept(support))
                fit = Fit(version, "quick", fitted, support)
        except RepriError as error:
            fit = None
            self.events.publish("problem", sentence=str(error))
        except Exception:  # a bug must not come again and again
            fit = None
            traceback.print_exc()
        with self._lock:
            self.fit, self._fitted_version = fit, version
            if fit is None:
                self.records.clear()
                self._doubts.clear()
        self._tell_fit()

    def _kept(self, support: Support) -> Callable[[int, Look], Any]:
        return lambda place, look: self.cells.get(support.ids[place], look)

    def _tell_fit(self, same: bool = False) -> None:
        """Tell pages about the new fit, and whether its results are those that are there."""
        self.events.publish("fit", same=same, **self.progress())

    def _try(self, id: str, step: Callable[[str], None]) -> None:
        """An image that cannot be used is left out, and the page says why."""
        try:
            step(id)
        except RepriError as error:
            self._fail(id, str(error).replace(str(self.project.folder) + "/", ""))
        except Exception:  # a bug must not come again and again
            traceback.print_exc()
            self._fail(id, "This image cannot be processed because of a bug in repri.")

    def _fail(self, id: str, sentence: str) -> None:
        self.failed[id] = sentence
        self.events.publish("failed", image=id, sentence=sentence)

    def _see(self, id: str) -> None:
        seen = self.cells.get(id, self.look)
        self.seen[id] = summary_of(seen)
        self.events.publish("progress", seen=len(self.seen), images=len(self.project.images) - len(self.failed))

    def _segment(self, id: str) -> None:
        if id not in self.seen:
            self._see(id)
        maps = self.maps(id)
        record = maps.record
        first = id not in self.records or self.records[id].version < record.version
        self.records[id] = record
        content = record.content()
        if id == self._current and first and record.stage == "quick" and record.version == self.version:
            self.latencies = [*self.latencies[-199:], 1000 * (time.monotonic() - self._changed)]
            content["latency"] = round(self.latencies[-1], 1)
        self.events.publish("result", image=id, **content)
        self._doubts[id] = summary_of(self.cells.get(id, self.look), maps.probabilities.values())


def _map_bytes(maps: Maps) -> int:
    return maps.mask.nbytes + sum(values.nbytes for values in maps.probabilities.values())

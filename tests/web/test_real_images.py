"""The loop of the page on real images, in a real browser."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pytest
from PIL import Image

from repri.data.io.masks import read_mask
from tests.web.browser import Page, middle_line

CAT = 8
"""The class of PASCAL that is annotated; the extractor below has seen no label of it."""
EXTRACTOR = "default-fold1"


class Server:
    """``repri serve`` as a program of its own."""

    def __init__(self, folder, cache):
        self.folder, self.cache = folder, cache
        self.start()

    def start(self):
        command = [sys.executable, "-m", "repri", "serve", str(self.folder), "--port", "0", "--extractor", EXTRACTOR]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "REPRI_CACHE": str(self.cache)}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("page"):
                self.url = line.split()[1]
                return
        raise AssertionError("the server did not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def get(self, path):
        with urllib.request.urlopen(f"{self.url}api/projects/folder/{path}") as answer:
            return answer.read()

    def mask(self, id):
        return np.asarray(Image.open(io.BytesIO(self.get(f"images/{id}/result.png"))))


@pytest.fixture
def cats(test_data, tmp_path):
    """30 real images with a cat, and their masks by name."""
    root, folder = test_data / "data" / "voc5i", tmp_path / "cats"
    folder.mkdir()
    truths = {}
    for stem in json.loads((root / "lists" / "pascal" / "val_class_files_origres.json").read_text())[str(CAT)]:
        mask = read_mask(root / "SegmentationClassAug" / f"{stem}.png")
        if (mask == CAT).mean() > 0.08 and set(np.unique(mask)) <= {0, CAT, 255}:
            shutil.copy(root / "JPEGImages" / f"{stem}.jpg", folder)
            truths[f"{stem}.jpg"] = mask
        if len(truths) == 30:
            return folder, truths
    raise AssertionError("too few images of cats")


def iou(mask, truth, label=1):
    known = truth != 255
    inside, cat = (mask == label) & known, truth == CAT
    return (inside & cat).sum() / max(1, (inside | cat).sum())


def test_the_loop_on_real_images(browser, cats, tmp_path, capsys):
    """Paint, look, correct; undo; reload; a server that is killed loses nothing."""
    folder, truths = cats
    server = Server(folder, tmp_path / "cache")
    try:
        with Page(browser, server.url) as page:
            name = max(truths, key=lambda key: (truths[key] == CAT).sum(1).max())
            ids = {image["name"]: image["id"] for image in page.ask("state.images")}
            assert len(ids) == 30
            page.choose(name)
            page.until("state.progress.seen >= 1")
            page.stroke(middle_line(truths[name] == CAT))
            page.page.keyboard.press("0")
            page.stroke(middle_line(truths[name] == 0))
            page.settled(90)
            scores = {key: iou(server.mask(ids[key]), truth) for key, truth in truths.items()}
            assert scores[name] >= 0.6
            assert np.median(list(scores.values())) >= 0.6
            area = page.ask("stage.layers.area(1)")
            assert area == pytest.approx((server.mask(ids[name]) == 1).mean(), abs=1e-6), "what is drawn is the result"

            worst = min(scores, key=scores.get)
            page.choose(worst)
            wrong = server.mask(ids[worst])
            missed, taken = (truths[worst] == CAT) & (wrong == 0), (truths[worst] == 0) & (wrong == 1)
            for key, region in (("1", missed), ("0", taken)):
                page.page.keyboard.press(key)
                page.stroke(middle_line(region))
            page.settled(90)
            corrected = iou(server.mask(ids[worst]), truths[worst])
            assert corrected > scores[worst]

            before = server.mask(ids[worst])
            page.page.keyboard.press("Control+z")
            page.settled(90)
            assert page.ask("stage.annotation.marks.length") == 1
            page.page.keyboard.press("Control+Shift+Z")
            page.settled(90)
            assert (server.mask(ids[worst]) == before).all(), "redo brings the same result back"

            latency = page.page.inner_text("#status")
            page.page.keyboard.press("1")
            x, y = middle_line(truths[worst] == CAT)[0]
            page.stroke([(x, y), (x + 5, y + 5)])
            page.until("!stage.annotation.saving && !stage.annotation.dirty")
            kept = server.get(f"images/{ids[worst]}/annotation")
            server.kill()  # in the middle of the work
            server.start()
            assert server.get(f"images/{ids[worst]}/annotation") == kept
            page.url = server.url
            page.open()
            page.choose(worst)
            assert page.ask("stage.annotation.marks.length") == 3
            page.settled(90)
            assert not [problem for problem in page.problems if "ERR_" not in problem]
        with capsys.disabled():
            print(
                f"\npage: IoU {scores[name]:.2f} on the painted image, "
                f"median {np.median(list(scores.values())):.2f} of 30; "
                f"the worst rises from {scores[worst]:.2f} to {corrected:.2f}; {latency}"
            )
    finally:
        server.kill()

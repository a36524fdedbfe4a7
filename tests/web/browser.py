"""A real browser for the tests of the page, and what people do in it."""

import os
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

__all__ = ["Page", "browser_or_skip", "chromium", "middle_line"]

BROWSER = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def browser_or_skip():
    """Skip the test where there is no browser, unless REPRI_REQUIRE_BROWSER says that there must be one."""
    path = BROWSER if BROWSER.is_file() else Path(shutil.which("chromium") or "/nothing")
    if path.is_file():
        return path
    reason = "Debian's chromium is not installed: no browser to test with"
    if os.environ.get("REPRI_REQUIRE_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def chromium():
    """A browser that is closed at the end."""
    path = browser_or_skip()
    sync = pytest.importorskip("playwright.sync_api")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(path), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


class Page:
    """A page of the server, used as a person uses it."""

    def __init__(self, browser, url, width=1280, height=800, **options):
        self.context = browser.new_context(viewport={"width": width, "height": height}, **options)
        self.page = self.context.new_page()
        self.url, self.problems = url, []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda line: self.problems.append(line.text) if line.type == "error" else None)
        self.page.on("dialog", lambda dialog: self.problems.append(f"a dialog: {dialog.message}"))

    def __enter__(self):
        return self.open()

    def __exit__(self, *details):
        self.context.close()

    def open(self, place=""):
        self.page.goto(self.url + place)
        self.page.wait_for_selector(".cell img")
        self.page.wait_for_selector("#stage:not([aria-label='No image'])")
        self.until("stage.image !== null && stage.annotation !== null")
        return self

    def ask(self, expression):
        """The value of an expression in which state and stage are known."""
        return self.page.evaluate(
            "async (text) => { const { state, current } = await import('/js/state.js');"
            "const { stage } = await import('/js/stage.js');"
            f"return ({expression}); }}",
            "",
        )

    def until(self, expression, seconds=30.0):
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not (value := self.ask(expression)):
            assert time.monotonic() < end, f"never true: {expression}; {self.page.inner_text('#status')}"
            self.page.wait_for_timeout(30)
        return value

    def settled(self, seconds=60.0):
        """Wait until everything drawn is saved, every image is segmented, and the current one is shown."""
        self.until("!stage.annotation.saving && !stage.annotation.dirty")
        self.until(
            "state.progress.stage && state.images.every((i) => i.problem || i.accepted || "
            "i.result?.version === state.progress.version) && stage.layers !== null",
            seconds,
        )

    def screen(self, x, y):
        """Place on the screen of a pixel of the image."""
        left, top, scale = self.ask("[stage.left, stage.top, stage.scale]")
        box = self.page.locator("#stage").bounding_box()
        return box["x"] + left + x * scale, box["y"] + top + y * scale

    def stroke(self, points, steps=6):
        """Draw with the button down along points of the image."""
        places = [self.screen(x, y) for x, y in points]
        self.page.mouse.move(*places[0])
        self.page.mouse.down()
        for place in places[1:]:
            self.page.mouse.move(*place, steps=steps)
        self.page.mouse.up()

    def choose(self, name):
        """Open the image with a name."""
        self.page.evaluate(
            "async (name) => { const { state, emit } = await import('/js/state.js');"
            "emit('open', state.images.find((image) => image.name === name).id); }",
            name,
        )
        self.until(f"current().name === {name!r} && stage.annotation?.id === state.current && stage.image !== null")


def middle_line(region):
    """The longest run inside a region, as two points."""
    best = (0, 0, 0)
    for row in range(0, len(region), 4):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], region[row].astype(np.int8), [0]])))
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            best = max(best, (int(end - start), row, int(start)))
    length, row, start = best
    inset = min(length // 5, 12)
    return [(start + inset, row + 0.5), (start + length - inset, row + 0.5)]

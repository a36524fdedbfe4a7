"""Make the images of the web page in docs/: still ones at both widths, and a short animation of the loop.

    python tools/screenshots.py --output docs

The images are the portraits that come with the package, mirrored and cut out too. It needs Debian's chromium and
playwright.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from repri.runtime.files import atomic

BROWSER = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
WIDE, NARROW = (1360, 850), (390, 844)
ANIMATED = 760
"""Width of the animation."""
LARGEST = 2_000_000
"""Bytes that the animation may have."""


PEOPLE = ("grace_hopper", "eileen_collins", "photographer")
VIEWS = {"a": (0, 0, 1, 1), "b": (0.05, 0, 0.9, 0.85), "c": (0.15, 0.05, 1, 0.75), "d": (0, 0.05, 0.85, 1)}
"""Parts of each photograph: left, top, right and bottom; the second and the fourth are mirrored."""
STROKES: dict[str, list[list[tuple[float, float]]]] = {
    "object": [[(0.5, 0.22), (0.52, 0.34), (0.5, 0.46)], [(0.4, 0.62), (0.5, 0.75), (0.62, 0.85)]],
    "background": [[(0.88, 0.08), (0.92, 0.4)], [(0.06, 0.3), (0.1, 0.6)]],
}
"""Strokes on the first image, in fractions of its width and height."""


def draw_views(folder: Path) -> None:
    """Write the images of the project."""
    from repri.data.datasets.examples import EXAMPLES

    folder.mkdir()
    people = {item.name: item.image for item in (*EXAMPLES["people"].support(), *EXAMPLES["people"].queries())}
    for view, (left, top, right, bottom) in VIEWS.items():
        for n, name in enumerate(PEOPLE, 1):
            image = Image.fromarray(people[name])
            width, height = image.size
            part = image.crop((round(left * width), round(top * height), round(right * width), round(bottom * height)))
            part = ImageOps.mirror(part) if view in "bd" else part
            part.save(folder / f"{view}{n} {name}.jpg", quality=92)


def start(folder: Path, cache: Path) -> tuple[subprocess.Popen[str], str]:
    """``repri serve`` and the address of its page."""
    command = [sys.executable, "-m", "repri", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"REPRI_CACHE": str(cache)})
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("page"):
            return server, line.split()[1]
    raise SystemExit("the server did not start")


class Film:
    """Frames of the animation, and how long each is shown."""

    def __init__(self, page: Any):
        self.page, self.frames, self.times = page, [], []

    def take(self, milliseconds: int) -> None:
        shot = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        height = round(ANIMATED * shot.height / shot.width)
        self.frames.append(shot.resize((ANIMATED, height), Image.Resampling.LANCZOS))
        self.times.append(milliseconds)

    def save(self, path: Path) -> None:
        for quality in (80, 65, 50, 35):
            first, *rest = self.frames
            options = {"duration": self.times, "loop": 0, "quality": quality, "method": 4}
            content = io.BytesIO()
            first.save(content, "WEBP", save_all=True, append_images=rest, **options)
            if len(content.getvalue()) <= LARGEST:
                with atomic(path) as temporary:
                    temporary.write_bytes(content.getvalue())
                return
        raise SystemExit(f"{path} would have more than {LARGEST:,} bytes")


def places(page: Any, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places on the screen of points given as fractions of the image."""
    box = page.locator("#stage").bounding_box()
    view = page.evaluate(
        "async () => { const { stage } = await import('/js/stage.js');"
        "return [stage.left, stage.top, stage.scale * stage.image.width, stage.scale * stage.image.height]; }"
    )
    return [(box["x"] + view[0] + x * view[2], box["y"] + view[1] + y * view[3]) for x, y in points]


def stroke(page: Any, points: list[tuple[float, float]], film: Film | None = None) -> None:
    """Draw along points given as fractions of the image."""
    first, *rest = places(page, points)
    page.mouse.move(*first)
    page.mouse.down()
    for place in rest:
        page.mouse.move(*place, steps=4)
        if film:
            film.take(90)
    page.mouse.up()


def settled(page: Any, full: bool = False) -> None:
    """Wait until all images are segmented, and with ``full`` a minute longer for the chosen settings."""
    wanted = "state.progress.stage === 'full' && " if full else ""
    for _ in range(300):
        page.wait_for_timeout(200)
        done = page.evaluate(
            "async () => { const { state } = await import('/js/state.js');"
            f"return {wanted} state.progress.stage && state.images.every((image) => image.accepted || "
            "(image.result?.version === state.progress.version && image.result?.stage === state.progress.stage)); }"
        )
        if done:
            page.wait_for_timeout(900)
            return
    if not full:
        raise SystemExit("the results never came")


def shoot(browser: Any, url: str, output: Path, strokes: dict[str, list[list[tuple[float, float]]]]) -> None:
    """Use the page and take the images."""
    options = {"viewport": {"width": WIDE[0], "height": WIDE[1]}}
    page = browser.new_context(**options, color_scheme="light").new_page()
    page.goto(url)
    page.wait_for_selector("#hint:not(:empty)")
    page.wait_for_timeout(2500)
    film = Film(page)
    film.take(1200)
    for points in strokes["object"]:
        stroke(page, points, film)
    for _ in range(6):
        page.wait_for_timeout(350)
        film.take(350)
    settled(page)
    film.take(1500)
    page.keyboard.press("0")
    for points in strokes["background"]:
        stroke(page, points, film)
    settled(page)
    film.take(1500)
    page.keyboard.press("n")
    page.wait_for_timeout(1500)
    film.take(2000)
    film.save(output / "page.webp")
    page.keyboard.press("Home")
    page.locator(".cell").first.click()
    settled(page, full=True)
    page.mouse.move(5, 5)
    page.locator("#heat").check()
    page.locator("#objective").scroll_into_view_if_needed()
    page.locator("#proportion").fill("0.5")
    page.wait_for_timeout(2000)
    page.screenshot(path=output / "page-objective.png")
    page.context.close()
    page = browser.new_context(**options, color_scheme="dark").new_page()
    page.goto(url)
    page.wait_for_timeout(4000)
    page.screenshot(path=output / "page-dark.png")
    page.context.close()
    narrow = browser.new_context(viewport={"width": NARROW[0], "height": NARROW[1]}, device_scale_factor=2)
    page = narrow.new_page()
    page.goto(url)
    page.wait_for_timeout(4000)
    page.screenshot(path=output / "page-narrow.png")
    page.context.close()


def reduced(path: Path) -> None:
    """Keep the file small: a palette of 256 colours is enough for documentation."""
    with Image.open(path) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(path, optimize=True)


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("docs"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place) / "portraits"
        draw_views(folder)
        server, url = start(folder, Path(place) / "cache")
        browser = playwright.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        try:
            shoot(browser, url, args.output, STROKES)
        finally:
            browser.close()
            server.kill()
    for path in args.output.glob("page-*.png"):
        reduced(path)
        print(f"{path}  {path.stat().st_size:,} bytes")
    print(f"{args.output / 'page.webp'}  {(args.output / 'page.webp').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

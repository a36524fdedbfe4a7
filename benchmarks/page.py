"""How quickly the web page answers, with many images: seconds to the first thumbnails and results, time to scroll,
milliseconds from a stroke to its result, and memory of the server and the browser.

    python benchmarks/page.py --images FOLDER [--count 2000] [--strokes 12]
    python benchmarks/page.py --images FOLDER --processor

`--processor` needs no browser. It prints the processor time from a stroke to the result of its image, which depends
little on what else the machine does.

It needs Debian's chromium and playwright. The images are linked into a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repri.data.io.images import list_images

BROWSER = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]


SHOTS = 5
"""Images that are annotated."""


def memory(process: int) -> float:
    """Resident memory of a process in MB, as Linux knows it."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS"))


def state(page: Any, expression: str) -> Any:
    """A value that the page knows."""
    return page.evaluate(
        "async () => { const { state } = await import('/js/state.js'); const { stage } = await import('/js/stage.js');"
        f"return ({expression}); }}"
    )


def wait(page: Any, expression: str, seconds: float = 60) -> float:
    """Seconds until an expression is true."""
    start = time.perf_counter()
    while not state(page, expression):
        if time.perf_counter() - start > seconds:
            raise SystemExit(f"never true: {expression}")
        page.wait_for_timeout(20)
    return time.perf_counter() - start


def stroke(page: Any, n: int) -> None:
    """Draw a short stroke at a place that depends on its number."""
    box = page.locator("#stage").bounding_box()
    x, y = box["x"] + box["width"] * (0.4 + 0.015 * n), box["y"] + box["height"] * (0.45 + 0.01 * n)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 30, y + 12, steps=4)
    page.mouse.up()


def draw_many(page: Any, strokes: int) -> list[float]:
    """Milliseconds from the end of each stroke until its result is on screen, as the page measures it."""
    before = len(state(page, "state.latencies"))
    for n in range(1, strokes + 1):
        page.keyboard.press("1" if n % 2 else "0")
        stroke(page, n)
        wait(page, f"state.latencies.length >= {before + n}")
        page.wait_for_timeout(300)
    return state(page, f"state.latencies.slice({before})")


def measure(page: Any, url: str, strokes: int) -> None:
    start = time.perf_counter()
    page.goto(url)
    page.wait_for_selector(".cell img")
    print(f"thumbnails on screen            {time.perf_counter() - start:6.2f} s")
    wait(page, "stage.image !== null && stage.annotation !== null")
    wait(page, "state.progress.seen >= 1")
    stroke(page, 0)
    print(f"first result after a stroke     {wait(page, 'stage.layers !== null'):6.2f} s")
    print("stroke to its result, median and p95 in ms")
    for shots in range(1, SHOTS + 1):
        if shots > 1:
            before = state(page, "state.current")
            page.keyboard.press("f")
            wait(page, f"state.current !== '{before}' && stage.image !== null && stage.annotation !== null")
            wait(page, "state.byId.get(state.current).result")
        shown = draw_many(page, strokes)
        print(
            f"  {shots} annotated, until on screen {np.median(shown):6.0f} {np.percentile(shown, 95):6.0f}", flush=True
        )
    with urllib.request.urlopen(f"{url}api/about") as answer:
        latency = json.load(answer)["latency"]
    print(f"  all of them, in the server   {latency['median']:6.0f} {latency['p95']:6.0f}")
    spent = page.evaluate(
        """async () => { const list = document.querySelector("#list"); const times = [];
        for (let i = 0; i < 60; i++) { const t = performance.now(); list.scrollTop += 1000;
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          times.push(performance.now() - t); }
        times.sort((a, b) => a - b); return [times[30], times[57], document.querySelectorAll(".cell").length]; }"""
    )
    print(f"scroll by 1000 pixels, median   {spent[0]:6.0f} ms, p95 {spent[1]:.0f} ms, {spent[2]} cells in the page")
    heap = page.evaluate("performance.memory.usedJSHeapSize / 1e6")
    print(f"memory of the page's JavaScript {heap:6.0f} MB")


def processor_time(folder: Path, strokes: int) -> None:
    """Draw on five images in turn, and print the processor time of saving, the fit and the image drawn on."""
    from repri import Segmenter
    from repri.web.marks import Annotation, Mark
    from repri.web.project import Project
    from repri.web.session import Session

    torch.set_num_threads(1)
    session = Session(Project(folder), Segmenter())
    print("| annotated images | stroke to result, processor time |\n|---|---|")
    for shots, id in enumerate(list(session.project.images)[:SHOTS], 1):
        session.watch(id, [])
        session.cells.get(id, session.look)
        spent = []
        for n in range(strokes):
            before = session.project.annotation(id)
            points = [(100.0 + 5 * n, 100.0 + 3 * n), (160.0 + 5 * n, 120.0 + 3 * n)]
            mark = Mark(kind="brush", label=1 - n % 2, width=12, points=points)
            start = time.process_time()
            session.annotate(id, Annotation(marks=[*before.marks, mark], revision=before.revision))
            for _ in range(2):  # the fit, then the current image
                step = session.next_step()
                assert step is not None
                step()
            spent.append(1000 * (time.process_time() - start))
        print(f"| {shots} | {np.median(spent):.0f} ms |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True, help="folder of images")
    parser.add_argument("--count", type=int, default=2000, help="number of images")
    parser.add_argument("--strokes", type=int, default=12, help="number of strokes")
    parser.add_argument("--processor", action="store_true", help="only the processor time, without a browser")
    args = parser.parse_args()
    if args.processor:
        with tempfile.TemporaryDirectory() as place:
            for path in list_images(args.images)[:SHOTS]:
                shutil.copyfile(path, Path(place) / path.name)
            processor_time(Path(place), args.strokes)
        return
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place) / "images"
        folder.mkdir()
        for path in list_images(args.images)[: args.count]:
            shutil.copyfile(path, folder / path.name)
        print(f"images                          {len(list(folder.iterdir())):6}")
        command = [sys.executable, "-m", "repri", "serve", str(folder), "--port", "0"]
        environment = os.environ | {"REPRI_CACHE": f"{place}/cache"}
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert server.stdout is not None
        url = next(line.split()[1] for line in server.stdout if line.startswith("page"))
        browser = playwright.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        try:
            measure(browser.new_page(viewport={"width": 1400, "height": 900}), url, args.strokes)
            print(f"memory of the server            {memory(server.pid):6.0f} MB")
        finally:
            browser.close()
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()

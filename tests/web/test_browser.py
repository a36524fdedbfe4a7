"""The page in a real browser."""

import io
import os
import threading
import time
import urllib.request
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import uvicorn
from PIL import Image

from repri.web.app import build_app
from repri.web.projects import Projects
from tests.web.browser import Page, browser_or_skip
from tests.web.make import strokes


@contextmanager
def served(known):
    """A server in this process; gives its address."""
    browser_or_skip()
    server = uvicorn.Server(uvicorn.Config(build_app(known), port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def live(folder, segmenter, tmp_path):
    """The address of a server on generated scenes."""
    (folder / "<img src=x onerror=alert(1)>.png").write_bytes((folder / "scene0.png").read_bytes())
    with served(Projects(segmenter, tmp_path / "projects", folder)) as address:
        yield address


def test_every_tool(browser, live, scenes):
    """Brush, box, polygon, eraser, panning, two classes, the proportion, the threshold, accepting, reloading."""
    with Page(browser, live) as page:
        keys, mouse = page.page.keyboard, page.page.mouse
        page.choose("scene0.png")
        for _ in range(12):
            keys.press("[")
        assert page.ask("state.width") == 1
        keys.press("]")
        for mark in strokes(scenes[1][0]):
            keys.press(str(mark.label))
            page.stroke(mark.points)
        page.settled()
        marks = page.ask("stage.annotation.marks")
        assert [(mark["kind"], mark["label"], mark["width"]) for mark in marks] == [("brush", 1, 2), ("brush", 0, 2)]

        keys.press("Space")
        keys.down("Space")
        page.stroke([(10, 10), (30, 30)])
        keys.up("Space")
        mouse.move(*page.screen(20, 20))
        mouse.down(button="middle")
        mouse.move(*page.screen(25, 25))
        mouse.up(button="middle")
        assert len(page.ask("stage.annotation.marks")) == 2, "panning never draws"
        scale = page.ask("stage.scale")
        under = page.screen(20, 20)
        mouse.move(*under)
        mouse.wheel(0, -300)
        page.until(f"stage.scale > {scale}")
        assert page.screen(20, 20) == pytest.approx(under, abs=0.5), "the wheel zooms at the cursor"
        page.page.click("#fit")

        keys.press("r")
        page.stroke([(40, 40), (50, 52)])
        keys.press("p")
        for x, y in [(5, 40), (15, 40), (15, 50)]:
            mouse.click(*page.screen(x, y))
        keys.press("Enter")
        mouse.click(*page.screen(5, 5))
        keys.press("Escape")
        keys.down("Shift")
        page.stroke([(5, 55), (15, 55), (15, 62), (5, 62)], steps=8)
        keys.up("Shift")
        keys.press("b")
        keys.down("Control")
        page.stroke([(40, 46), (50, 46)])
        keys.up("Control")
        page.settled()
        kinds = [(mark["kind"], mark["label"]) for mark in page.ask("stage.annotation.marks")[2:]]
        assert kinds == [("box", 0), ("polygon", 0), ("polygon", 0), ("brush", 255)]
        assert page.ask("stage.annotation.marks[2].points") == [
            pytest.approx([40, 40], abs=0.3),
            pytest.approx([50, 52], abs=0.3),
        ]
        for _ in range(4):
            keys.press("Control+z")
        page.settled()
        assert len(page.ask("stage.annotation.marks")) == 2

        told(page)
        two_classes(page)
        page.page.click("#accept")
        page.until("current().accepted")
        page.page.reload()
        page.until("stage.image !== null && stage.annotation !== null")
        assert page.ask("[current().name, current().accepted, state.settings.classes.length]") == [
            "scene0.png",
            True,
            2,
        ]
        assert len(page.ask("stage.annotation.marks")) == 3
        keys.press("Control+z")
        page.until("stage.annotation.marks.length === 2 && !stage.annotation.saving")
        assert page.ask("stage.annotation.before.length") == 2, "strokes of an earlier visit can be undone"
        assert page.problems == []


def told(page):
    """The slider of π changes the area as it is asked to; the losses differ; the threshold moves the mask."""
    page.choose("scene1.png")
    page.settled()
    areas = []
    for place in (0.35, 0.6, 0.85):
        page.page.locator("#proportion").fill(str(place))
        page.until("document.querySelector('#proportion-value').textContent.includes('told')")
        page.page.wait_for_timeout(600)
        areas.append(page.ask("stage.layers.area(1)"))
    assert areas[0] < areas[1] < areas[2]
    assert page.page.locator("#chart-pi svg").count() == 1
    page.page.click("#proportion-reset")
    page.until("document.querySelector('#proportion-value').textContent.includes('estimated')")
    page.page.get_by_label("initial", exact=True).click()
    page.until("document.querySelector('#chart-loss').textContent.includes('No steps')")
    page.page.get_by_label("full", exact=True).click()
    page.until("document.querySelector('#chart-loss svg')")
    area = page.ask("stage.layers.area(1)")
    page.page.locator("#threshold").fill("0.9")
    page.until(f"stage.layers.area(1) < {area}")
    page.page.locator("#threshold").fill("0.5")
    page.settled()


def two_classes(page):
    """A second class gets a colour and a mask of its own."""
    page.choose("scene0.png")
    page.page.click("#add-class")
    page.until("state.label === 2 && state.settings.classes.length === 2")
    name = page.page.get_by_label("Name of class 2")
    name.fill("<b>bold</b>")
    name.press("Enter")
    page.until("state.settings.classes[1].name === '<b>bold</b>'")
    page.page.keyboard.press("r")
    page.stroke([(0, 0), (12, 12)])
    page.settled()
    page.until("Object.keys(current().result.areas).length === 2")
    assert page.page.locator("#figures b, .panel b").count() == 0, "names are never HTML"


def test_export_and_import_give_equal_masks(browser, live, scenes, tmp_path):
    with Page(browser, live) as page:
        page.choose("scene0.png")
        for mark in strokes(scenes[1][0]):
            page.page.keyboard.press(str(mark.label))
            page.stroke(mark.points)
        page.settled()
        page.page.click("#export")
        for name in ("COCO", "LabelMe", "YOLO-seg", "Label Studio", "overlays (JPEG)"):
            page.page.get_by_label(name).check()
        with page.page.expect_download() as download:
            page.page.click("#export-zip")
        download.value.save_as(tmp_path / "out.zip")
        page.page.click("#export")
        page.page.set_input_files("#mask-file", tmp_path / "out.zip")
        page.until("state.images.every((image) => image.annotated)")
        page.settled()
        with zipfile.ZipFile(tmp_path / "out.zip") as packed:
            tops = {name.split("/")[0] for name in packed.namelist()}
            assert tops >= {"masks", "overlays", "coco.json", "labelme", "yolo", "label-studio.json", "classes.txt"}
            for image in page.ask("state.images"):
                name = image["name"].replace("/", "__").translate({ord(c): "_" for c in '<>:"'})
                with packed.open(f"masks/{name}") as file:
                    exported = np.asarray(Image.open(io.BytesIO(file.read())))
                with urllib.request.urlopen(f"{live}api/projects/folder/images/{image['id']}/annotation.png") as answer:
                    assert (np.asarray(Image.open(io.BytesIO(answer.read()))) == exported).all()
        assert page.problems == []


def test_with_the_keyboard_alone(browser, live):
    """Tab to the image, draw with arrow keys, move through the list."""
    with Page(browser, live) as page:
        keys = page.page.keyboard
        for _ in range(60):
            keys.press("Tab")
            if page.ask("document.activeElement.id === 'stage'"):
                break
        assert page.ask("document.activeElement.id") == "stage"
        assert page.ask("getComputedStyle(document.activeElement).outlineStyle") != "none"
        keys.press(".")
        for _ in range(3):
            keys.press("ArrowRight")
        keys.press(".")
        page.until("stage.annotation.marks.length === 1")
        assert page.ask("stage.annotation.marks[0].points.length") == 4
        page.settled()
        before = page.ask("state.current")
        keys.press("f")
        page.until(f"state.current !== '{before}'")
        keys.press("a")
        page.until("current().accepted")
        keys.press("?")
        assert page.page.locator("#keys-dialog").is_visible()
        keys.press("Escape")
        page.page.locator(".cell[tabindex='0']").focus()
        keys.press("End")
        keys.press("Enter")
        page.until("current().name === state.images.at(-1).name")
        keys.press("n")
        page.until("state.suggested !== null && state.current === state.suggested")
        keys.press("ArrowDown")
        page.page.locator("#export").focus()
        keys.press("Enter")
        page.page.locator("#export-zip").focus()
        with page.page.expect_download() as download:
            keys.press("Enter")
        assert download.value.suggested_filename == "repri-results.zip"
        keys.press("w")  # the wand, or the reason why there is none
        page.until("state.noWand ? document.querySelector('.toast') !== null : state.tool === 'wand'")
        assert page.problems == []


@pytest.mark.parametrize(("width", "height"), [(360, 740), (2560, 1300)])
def test_narrow_and_wide_screens(browser, live, width, height):
    with Page(browser, live, width, height, has_touch=True) as page:
        assert page.ask("document.documentElement.scrollWidth") <= width
        for selector in ("#stage", "#tools", "#list", "#accept"):
            box = page.page.locator(selector).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        box = page.page.locator("#stage").bounding_box()
        assert min(box["width"], box["height"]) > 200
        page.page.touchscreen.tap(*page.screen(30, 30))
        page.until("stage.annotation.marks.length === 1")
        fingers_and_pen(page)
        page.settled()


def fingers_and_pen(page):
    """A finger draws, two fingers zoom and never draw, a pen draws."""
    tools = page.context.new_cdp_session(page.page)

    def touch(kind, *places):
        points = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(page.screen(*place) for place in places)]
        tools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", (10, 10))
    touch("touchMove", (30, 12))
    touch("touchEnd")
    page.until("stage.annotation.marks.length === 2")
    assert len(page.ask("stage.annotation.marks[1].points")) >= 2
    scale = page.ask("stage.scale")
    touch("touchStart", (20, 20))
    touch("touchStart", (20, 20), (40, 40))
    touch("touchMove", (10, 10), (50, 50))
    touch("touchEnd")
    page.until(f"stage.scale > 1.3 * {scale}")
    for kind, place in (("mousePressed", (20, 40)), ("mouseMoved", (40, 44)), ("mouseReleased", (40, 44))):
        x, y = page.screen(*place)
        event = {"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1, "pointerType": "pen"}
        tools.send("Input.dispatchMouseEvent", event)
    page.until("stage.annotation.marks.length === 3")


def test_names_of_files_are_harmless(browser, live):
    with Page(browser, live) as page:
        hostile = "<img src=x onerror=alert(1)>.png"
        page.choose(hostile)
        assert page.page.inner_text("#image-name") == hostile
        assert page.page.locator("img[src='x']").count() == 0
        assert page.problems == []


def serious(page):
    """What axe-core finds, if it is there."""
    axe = os.environ.get("REPRI_AXE")
    if not axe:
        pytest.skip("REPRI_AXE does not name axe.min.js of the npm package axe-core")
    page.page.evaluate(Path(axe).read_text())
    found = page.page.evaluate("axe.run()")["violations"]
    return [(item["id"], item["nodes"][0]["html"]) for item in found if item["impact"] in ("serious", "critical")]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_no_serious_barrier(browser, live, scheme, width):
    """In both themes, wide and narrow, with and without a dialog."""
    with Page(browser, live, width, color_scheme=scheme, reduced_motion="reduce") as page:
        page.stroke([(20, 20), (40, 30)])
        page.settled()
        for selector in (None, "#keys", "#export"):
            if selector:
                page.page.click(selector)
            assert serious(page) == []
            page.page.keyboard.press("Escape")


def test_without_a_folder(browser, folder, segmenter, tmp_path):
    """Images that are sent open at once, and are there again when the page is opened again."""
    with served(Projects(segmenter, tmp_path / "projects")) as address:
        page = Page(browser, address)
        page.page.goto(address)
        page.page.wait_for_selector("#choose")
        page.page.set_input_files("#file", [folder / "scene0.png", folder / "scene1.png"])
        page.until("state.images.length === 2 && stage.image !== null && stage.annotation !== null")
        page.stroke([(20, 20), (40, 30)])
        page.settled()
        page.page.goto(address)
        page.until("state.images.length === 2 && state.images[0].annotated")
        assert page.problems == []
        page.context.clear_cookies()
        page.page.evaluate("localStorage.clear()")
        page.page.goto(address + "?")
        page.page.wait_for_selector("#choose", state="visible")
        barriers = serious(page)
        page.context.close()
        assert barriers == []

// Keys, as people know them from other tools.

import { byId, make } from "./dom.js";
import { cancelDraft, drag, finishPolygon, held, lift, press, setTool, setWidth } from "./tools.js";
import { setLabel, toggle } from "./panel.js";
import { fit, redraw, stage, zoomAt } from "./stage.js";
import { emit, state } from "./state.js";

export const TABLE = [
  ["B", "brush"],
  ["E, Ctrl+drag", "eraser"],
  ["P", "polygon: click points"],
  ["Shift+drag", "polygon: freehand"],
  ["Enter", "close the polygon"],
  ["Esc", "cancel"],
  ["R", "box"],
  ["W", "magic wand"],
  ["V, H", "move the image"],
  ["Space, middle button", "move, with any tool"],
  ["wheel, + −", "zoom"],
  ["[ ]", "brush size"],
  ["1 … 9", "class"],
  ["0", "background"],
  ["Ctrl+Z", "undo"],
  ["Ctrl+Shift+Z, Ctrl+Y", "redo"],
  ["D, F", "previous, next image"],
  ["N", "annotate next"],
  ["A", "accept"],
  ["M", "show or hide the mask"],
  ["Arrow keys", "move the crosshair"],
  [".", "put the pen down, lift it"],
  ["F1, ?", "these keys"],
];

const TOOLS = { b: "brush", e: "eraser", p: "polygon", r: "box", w: "wand", v: "pan", h: "pan" };
const typing = (element) =>
  element.matches?.('input[type="text"], input[type="number"], input[type="color"], select, textarea');
let down = false; // whether keys have put the pen down

function crosshair(event) {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (document.activeElement !== stage.canvas || !stage.image || !(event.key in steps)) return false;
  const [x, y] = steps[event.key];
  const step = event.shiftKey ? 32 : 8;
  const { width, height } = stage.image;
  const from = stage.crosshair ?? [width / 2, height / 2];
  stage.crosshair = [
    Math.min(width, Math.max(0, from[0] + x * step)),
    Math.min(height, Math.max(0, from[1] + y * step)),
  ];
  stage.pointer = stage.crosshair;
  if (down) drag(stage.crosshair);
  redraw();
  return true;
}

function pen() {
  if (!stage.image) return;
  stage.crosshair ??= [stage.image.width / 2, stage.image.height / 2];
  if (down && state.tool !== "polygon") {
    lift();
    down = false;
  } else {
    press(stage.crosshair);
    down = state.tool !== "polygon" && stage.draft !== null;
  }
  redraw();
}

function withControl(event) {
  const key = event.key.toLowerCase();
  if (key === "z") emit(event.shiftKey ? "redo" : "undo");
  else if (key === "y") emit("redo");
  else return false;
  return true;
}

function plain(event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key in TOOLS) setTool(TOOLS[key]);
  else if (key === "[") setWidth(Math.min(state.width - 1, state.width / 1.25));
  else if (key === "]") setWidth(Math.max(state.width + 1, state.width * 1.25));
  else if (/^[0-9]$/.test(key)) setLabel(Number(key));
  else if (key === "d") emit("step", -1);
  else if (key === "f") emit("step", 1);
  else if (key === "n") emit("suggest");
  else if (key === "a") emit("accept");
  else if (key === "m") toggle("show-mask");
  else if (key === "F1" || key === "?") byId("keys-dialog").showModal();
  else if (key === "Enter") return finishPolygon();
  else if (key === "Escape") {
    down = false;
    return cancelDraft();
  } else if (key === ".") pen();
  else if (key === "+" || key === "=") zoomAt(stage.canvas.clientWidth / 2, stage.canvas.clientHeight / 2, 1.25);
  else if (key === "-") zoomAt(stage.canvas.clientWidth / 2, stage.canvas.clientHeight / 2, 0.8);
  else if (key === " ") {
    if (event.target.matches?.("button, a, input, summary, [role='option']")) return false;
    held.space = true;
    stage.canvas.classList.add("grab");
  } else return crosshair(event);
  return true;
}

document.addEventListener("keydown", (event) => {
  if (typing(event.target) || document.querySelector("dialog[open]") || byId("work-area").hidden) return;
  if (event.target.matches?.('input[type="range"], input[type="radio"]') && /^(Arrow|Home|End|Page)/.test(event.key)) return;
  const control = event.ctrlKey || event.metaKey;
  if (event.altKey) return;
  if (control ? withControl(event) : plain(event)) event.preventDefault();
});
document.addEventListener("keyup", (event) => {
  if (event.key !== " ") return;
  held.space = false;
  stage.canvas.classList.toggle("grab", state.tool === "pan");
});
window.addEventListener("blur", () => (held.space = false));

const caps = (keys) => make("span", { className: "caps" }, ...keys.split(", ").map((key) => make("kbd", {}, key)));
byId("keys-table").append(...TABLE.map(([keys, what]) => make("div", {}, make("span", {}, what), caps(keys))));
byId("keys").addEventListener("click", () => byId("keys-dialog").showModal());
byId("fit").addEventListener("click", fit);

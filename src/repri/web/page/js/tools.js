// Pointer tools: mouse, pen and touch. Space and the middle button pan and never draw.

import { emit, state } from "./state.js";
import { fit, moveBy, redraw, stage, toImage, zoomAt } from "./stage.js";
import { ERASE } from "./marks.js";

const canvas = stage.canvas;
const fingers = new Map();
let panning = null; // the pointer that pans
let drawing = null; // the pointer that draws
const RUBBER = 5; // button of the other end of a pen
export const held = { space: false };

const position = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
const rounded = (points) => points.map(([x, y]) => [Math.round(x * 100) / 100, Math.round(y * 100) / 100]);

function clamp([x, y]) {
  return [Math.min(Math.max(x, 0), stage.image.width), Math.min(Math.max(y, 0), stage.image.height)];
}

/** Put the pen down at a place of the image. */
export function press(place, { erase = false, freehand = false } = {}) {
  if (!stage.annotation) return;
  const tool = state.tool;
  if (tool === "brush" || tool === "eraser") {
    const label = erase || tool === "eraser" ? ERASE : state.label;
    stage.draft = { kind: "brush", label, width: state.width, points: [place] };
  } else if (tool === "box" || tool === "wand") {
    stage.draft = { kind: "box", label: state.label, points: [place, place], wand: tool === "wand" };
  } else if (tool === "polygon") {
    if (stage.draft?.kind === "polygon") stage.draft.points.push(place);
    else stage.draft = { kind: "polygon", label: state.label, points: [place], open: true };
    stage.draft.freehand = freehand;
    const [first] = stage.draft.points;
    const close = Math.hypot(place[0] - first[0], place[1] - first[1]) * stage.scale < 10;
    if (stage.draft.points.length > 3 && close) finishPolygon();
  }
  redraw();
}

export function drag(place) {
  const draft = stage.draft;
  if (!draft) return;
  if (draft.kind === "box") draft.points[1] = place;
  else if (draft.kind === "brush" || draft.freehand) {
    const last = draft.points[draft.points.length - 1];
    const least = draft.kind === "brush" ? Math.max(0.5, draft.width / 8) : 2 / stage.scale;
    if (Math.hypot(place[0] - last[0], place[1] - last[1]) >= least && draft.points.length < 19000) {
      draft.points.push(place);
    }
  }
  redraw();
}

/** Lift the pen: a brush stroke or a box is done; a polygon waits for more points. */
export function lift() {
  const draft = stage.draft;
  if (!draft || (draft.kind === "polygon" && !draft.freehand)) return;
  if (draft.kind === "polygon") {
    draft.freehand = false;
    if (draft.points.length > 8) finishPolygon();
    return;
  }
  stage.draft = null;
  if (draft.wand) return wave(draft);
  const [[x0, y0], [x1, y1]] = draft.kind === "box" ? draft.points : [[0, 0], [9, 9]];
  if (Math.abs(x1 - x0) >= 1 && Math.abs(y1 - y0) >= 1) keep(draft);
  redraw();
}

/** The magic wand: a click means the object below it, a box the object inside it. */
async function wave(draft) {
  redraw();
  const [[x0, y0], [x1, y1]] = draft.points;
  const dragged = Math.min(Math.abs(x1 - x0), Math.abs(y1 - y0)) * stage.scale > 4;
  const annotation = stage.annotation;
  const content = dragged ? { label: draft.label, box: draft.points } : { label: draft.label, points: [draft.points[0]] };
  emit("wand", true);
  try {
    const { kind, label, counts } = await state.api.region(annotation.id, content);
    annotation.add({ kind, label, points: [], counts });
  } catch (error) {
    emit("wand-failed", error.message);
  }
  emit("wand", false);
}

export function finishPolygon() {
  const draft = stage.draft;
  if (draft?.kind !== "polygon") return false;
  stage.draft = null;
  if (draft.points.length >= 3) keep(draft);
  redraw();
  return true;
}

export function cancelDraft() {
  const there = stage.draft !== null;
  stage.draft = drawing = null;
  redraw();
  return there;
}

function keep(draft) {
  const mark = { kind: draft.kind, label: draft.label, points: rounded(draft.points) };
  if (draft.kind === "brush") mark.width = draft.width;
  stage.annotation.add(mark);
}

export function setTool(tool) {
  if (tool === "wand" && state.noWand) return emit("wand-failed", state.noWand);
  if (tool !== state.tool) cancelDraft();
  state.tool = tool;
  canvas.classList.toggle("grab", tool === "pan");
  emit("tool");
  redraw();
}

export function setWidth(width) {
  state.width = Math.min(400, Math.max(1, Math.round(width)));
  emit("width");
  redraw();
}

function pinch(event) {
  const before = [...fingers.values()];
  fingers.set(event.pointerId, position(event));
  const after = [...fingers.values()];
  if (after.length !== 2) return;
  const middle = (points) => [(points[0][0] + points[1][0]) / 2, (points[0][1] + points[1][1]) / 2];
  const apart = (points) => Math.hypot(points[0][0] - points[1][0], points[0][1] - points[1][1]) || 1;
  const [from, to] = [middle(before), middle(after)];
  moveBy(to[0] - from[0], to[1] - from[1]);
  zoomAt(...to, apart(after) / apart(before));
}

canvas.addEventListener("pointerdown", (event) => {
  if (!stage.image) return;
  canvas.setPointerCapture(event.pointerId);
  stage.crosshair = null;
  if (event.pointerType === "touch") {
    fingers.set(event.pointerId, position(event));
    if (fingers.size === 2) return cancelDraft();
  }
  if (event.button === 1 || held.space || state.tool === "pan") {
    panning = { id: event.pointerId, at: position(event) };
    canvas.classList.add("grabbing");
    event.preventDefault();
  } else if ((event.button === 0 || event.button === RUBBER) && fingers.size < 2) {
    drawing = event.pointerId;
    const erase = event.ctrlKey || event.metaKey || event.button === RUBBER;
    press(clamp(toImage(...position(event))), { erase, freehand: event.shiftKey });
  }
});

canvas.addEventListener("pointermove", (event) => {
  if (!stage.image) return;
  if (fingers.size === 2 && fingers.has(event.pointerId)) return pinch(event);
  if (fingers.has(event.pointerId)) fingers.set(event.pointerId, position(event));
  if (panning?.id === event.pointerId) {
    const at = position(event);
    moveBy(at[0] - panning.at[0], at[1] - panning.at[1]);
    panning.at = at;
    return;
  }
  const all = event.getCoalescedEvents?.() ?? [];
  for (const each of all.length ? all : [event]) {
    stage.pointer = toImage(...position(each));
    if (drawing === event.pointerId) drag(clamp(stage.pointer));
  }
  redraw();
});

function ended(event) {
  fingers.delete(event.pointerId);
  if (panning?.id === event.pointerId) panning = null;
  canvas.classList.remove("grabbing");
  if (drawing === event.pointerId) {
    drawing = null;
    if (event.type === "pointerup") lift();
    else cancelDraft();
  }
}
canvas.addEventListener("pointerup", ended);
canvas.addEventListener("pointercancel", ended);
canvas.addEventListener("pointerleave", () => {
  stage.pointer = null;
  redraw();
});
canvas.addEventListener("contextmenu", (event) => event.preventDefault());
canvas.addEventListener("dblclick", () => state.tool === "pan" && fit());
canvas.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoomAt(...position(event), Math.exp(-Math.max(-120, Math.min(120, event.deltaY * lines)) * 0.0022));
  },
  { passive: false },
);

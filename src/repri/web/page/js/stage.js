// The large view of one image: zoom, pan, and everything that is drawn over it.

import { byId, oncePerFrame } from "./dom.js";
import { drawMark, ERASE } from "./marks.js";
import { cssColour, state } from "./state.js";

const canvas = byId("stage");
const context = canvas.getContext("2d");

export const stage = {
  canvas,
  image: null, // ImageBitmap
  layers: null,
  annotation: null,
  draft: null, // the mark that is being drawn
  pointer: null, // [x, y] in pixels of the image
  crosshair: null, // the same, moved by keys
  scale: 1,
  left: 0,
  top: 0,
};

const overlay = document.createElement("canvas");
const marks = document.createElement("canvas");

export const redraw = oncePerFrame(paint);

export function setImage(image) {
  stage.image = image;
  stage.layers = stage.draft = stage.crosshair = null;
  for (const layer of [overlay, marks]) {
    layer.width = image?.width ?? 1;
    layer.height = image?.height ?? 1;
  }
  fit();
}

export function setLayers(layers) {
  stage.layers = layers;
  refreshOverlay();
}

export function refreshOverlay() {
  const pen = overlay.getContext("2d");
  pen.clearRect(0, 0, overlay.width, overlay.height);
  if (stage.layers && stage.layers.width === overlay.width) pen.putImageData(stage.layers.drawing(state.view), 0, 0);
  redraw();
}

export function refreshMarks() {
  const pen = marks.getContext("2d");
  pen.clearRect(0, 0, marks.width, marks.height);
  for (const mark of stage.annotation?.marks ?? []) drawMark(pen, mark);
  redraw();
}

/** The whole image in the middle. */
export function fit() {
  resize();
  if (!stage.image) return redraw();
  const { clientWidth: width, clientHeight: height } = canvas;
  const margin = Math.min(24, width / 20);
  stage.scale = Math.min((width - 2 * margin) / stage.image.width, (height - 2 * margin) / stage.image.height, 8);
  stage.left = (width - stage.scale * stage.image.width) / 2;
  stage.top = (height - stage.scale * stage.image.height) / 2;
  redraw();
}

export function resize() {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
}

/** Zoom so that the place under the cursor stays there. */
export function zoomAt(x, y, factor) {
  const scale = Math.min(60, Math.max(0.05, stage.scale * factor));
  stage.left = x - ((x - stage.left) * scale) / stage.scale;
  stage.top = y - ((y - stage.top) * scale) / stage.scale;
  stage.scale = scale;
  redraw();
}

export function moveBy(x, y) {
  stage.left += x;
  stage.top += y;
  redraw();
}

export const toImage = (x, y) => [(x - stage.left) / stage.scale, (y - stage.top) / stage.scale];

function paint() {
  const ratio = window.devicePixelRatio || 1;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  if (!stage.image) return;
  context.translate(stage.left, stage.top);
  context.scale(stage.scale, stage.scale);
  context.imageSmoothingEnabled = stage.scale < 3;
  context.imageSmoothingQuality = "high";
  context.drawImage(stage.image, 0, 0);
  if (state.view.mask) context.drawImage(overlay, 0, 0);
  if (state.view.marks) {
    context.globalAlpha = 0.62;
    context.drawImage(marks, 0, 0);
    context.globalAlpha = 1;
  }
  if (stage.draft) paintDraft(stage.draft);
  paintCursor();
}

function paintDraft(draft) {
  const line = 1.5 / stage.scale;
  context.globalAlpha = 0.7;
  if (draft.kind === "brush") {
    drawMark(context, { ...draft, label: 0 }, draft.label === ERASE ? 0 : draft.label);
  } else {
    context.fillStyle = context.strokeStyle = cssColour(draft.label);
    context.lineWidth = 2 * line;
    context.beginPath();
    if (draft.kind === "box") {
      const [[x0, y0], [x1, y1]] = draft.points;
      context.rect(x0, y0, x1 - x0, y1 - y0);
    } else {
      draft.points.forEach(([x, y]) => context.lineTo(x, y));
      if (stage.pointer && draft.open) context.lineTo(...stage.pointer);
    }
    context.stroke();
    context.globalAlpha = 0.25;
    context.fill();
    context.globalAlpha = 1;
    if (draft.kind === "polygon") {
      for (const [x, y] of draft.points.length > 60 ? draft.points.slice(0, 1) : draft.points) {
        context.fillStyle = "#fff";
        context.fillRect(x - 3 * line, y - 3 * line, 6 * line, 6 * line);
        context.strokeRect(x - 3 * line, y - 3 * line, 6 * line, 6 * line);
      }
    }
  }
  context.globalAlpha = 1;
}

/** The circle of the brush, or the crosshair that keys move. */
function paintCursor() {
  const line = 1.5 / stage.scale;
  const place = stage.crosshair ?? stage.pointer;
  if (!place) return;
  const brush = state.tool === "brush" || state.tool === "eraser";
  for (const [colour, width] of [["rgb(0 0 0 / 70%)", 3 * line], ["#fff", line]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    if (brush) context.arc(...place, Math.max(state.width / 2, line), 0, 7);
    if (stage.crosshair) {
      const [x, y] = place;
      const arm = 12 / stage.scale;
      context.moveTo(x - arm, y);
      context.lineTo(x + arm, y);
      context.moveTo(x, y - arm);
      context.lineTo(x, y + arm);
    }
    context.stroke();
  }
}

new ResizeObserver(() => {
  const before = [canvas.width, canvas.height].join();
  resize();
  if (before !== [canvas.width, canvas.height].join()) fit();
}).observe(canvas);

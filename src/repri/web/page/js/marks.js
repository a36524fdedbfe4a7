// Marks of an image: drawing them, and their history (one step for each stroke).

import { cssColour } from "./state.js";

export const ERASE = 255;
const STEPS = 200; // strokes of an earlier visit that can be undone

/** Draw one mark on a canvas at the image's own size. */
export function drawMark(context, mark, label = mark.label) {
  context.save();
  if (label === ERASE) context.globalCompositeOperation = "destination-out";
  context.fillStyle = context.strokeStyle = label === ERASE ? "#000" : cssColour(label);
  const points = mark.points;
  if (mark.kind === "region") {
    drawRegion(context, mark.counts);
  } else if (mark.kind === "box") {
    const [[x0, y0], [x1, y1]] = points;
    context.fillRect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
  } else if (mark.kind === "polygon") {
    context.beginPath();
    points.forEach(([x, y]) => context.lineTo(x, y));
    context.closePath();
    context.fill();
  } else {
    context.lineCap = context.lineJoin = "round";
    context.lineWidth = mark.width;
    context.beginPath();
    if (points.length === 1) {
      context.arc(...points[0], mark.width / 2, 0, 7);
      context.fill();
    } else {
      points.forEach(([x, y]) => context.lineTo(x, y));
      context.stroke();
    }
  }
  context.restore();
}

/** Draw COCO's run lengths: columns from top to bottom, five bits in each character. */
function drawRegion(context, counts) {
  const { width, height } = context.canvas;
  let place = 0;
  runLengths(counts).forEach((run, i) => {
    for (let end = place + run; i % 2 && place < end; ) {
      const x = Math.floor(place / height);
      const y = place % height;
      const length = Math.min(end - place, height - y);
      if (x < width) context.fillRect(x, y, 1, length);
      place += length;
    }
    if (i % 2 === 0) place += run;
  });
}

export function runLengths(counts) {
  const runs = [];
  for (let i = 0; i < counts.length; ) {
    let value = 0;
    let shift = 0;
    for (let more = true; more; i++) {
      const bits = counts.charCodeAt(i) - 48;
      value |= (bits & 31) << shift;
      shift += 5;
      more = (bits & 32) !== 0;
      if (!more && bits & 16) value |= -1 << shift;
    }
    runs.push(runs.length > 2 ? value + runs[runs.length - 2] : value);
  }
  return runs;
}

/** The annotation of one image, with undo. Saving is one request at a time; the last state always arrives. */
export class Annotation {
  constructor(api, id, content, changed) {
    this.api = api;
    this.id = id;
    this.marks = content.marks;
    this.complete = content.complete;
    this.revision = content.revision;
    this.before = content.marks.map((_, k) => ({ until: k })).slice(-STEPS); // also strokes of an earlier visit
    this.after = [];
    this.changed = changed;
    this.saving = null;
    this.dirty = false;
    this.began = 0; // when the last stroke ended
  }

  add(mark) {
    this.change([...this.marks, mark], this.complete);
  }

  change(marks, complete) {
    this.before.push({ marks: this.marks, complete: this.complete });
    this.after = [];
    this.set({ marks, complete });
  }

  undo() {
    this.step(this.before, this.after);
  }

  redo() {
    this.step(this.after, this.before);
  }

  step(from, to) {
    if (!from.length) return;
    const { until, marks = this.marks.slice(0, until), complete = this.complete } = from.pop();
    to.push({ marks: this.marks, complete: this.complete });
    this.set({ marks, complete });
  }

  set({ marks, complete }) {
    this.marks = marks;
    this.complete = complete;
    this.dirty = true;
    this.began = performance.now();
    this.changed(this);
    this.saving ??= this.save();
  }

  /** Save what could not be saved while the server was away. */
  retry() {
    if (this.dirty) this.saving ??= this.save();
  }

  async save() {
    try {
      while (this.dirty) {
        this.dirty = false;
        const content = { marks: this.marks, complete: this.complete, revision: this.revision };
        const kept = await this.api.annotate(this.id, content);
        this.revision = kept.revision;
      }
    } catch (error) {
      this.dirty = true;
      this.changed(this, error);
    } finally {
      this.saving = null;
    }
  }
}

// The list of images. Only the cells on screen exist, so thousands of images are no burden.

import { byId, make, oncePerFrame } from "./dom.js";
import { colour, emit, on, state } from "./state.js";

const list = byId("list");
const spacer = byId("spacer");
const cells = new Map(); // id → cell
const masks = new Map(); // id → { key, bitmap }
const KEPT = 300; // masks of thumbnails in memory
let shown = []; // ids in the order of the list
let columns = 1;
let side = 128;
let wanted = [];
let watching = 0;

export const visible = () => wanted;
export const order = () => shown;

function arrange() {
  const images = state.images.slice();
  const kind = byId("filter").value;
  const doubt = (image) => image.result?.confidence ?? 2;
  let picked = images;
  if (kind === "annotated") picked = images.filter((image) => image.annotated);
  if (kind === "open") picked = images.filter((image) => !image.accepted);
  if (kind === "accepted") picked = images.filter((image) => image.accepted);
  if (kind === "unsure") picked = images.filter((image) => image.result).sort((a, b) => doubt(a) - doubt(b));
  shown = picked.map((image) => image.id);
  byId("gallery-title").textContent = `${shown.length} ${shown.length === 1 ? "image" : "images"}`;
  layout();
}

const strip = () => getComputedStyle(list).getPropertyValue("--mode").trim() === "strip";

export const layout = oncePerFrame(() => {
  const across = strip();
  const width = list.clientWidth;
  if (across) {
    columns = 1;
    side = list.clientHeight;
    spacer.style.width = `${side * shown.length}px`;
    spacer.style.height = "100%";
  } else {
    columns = Math.max(1, Math.round(width / 140));
    side = width / columns;
    spacer.style.width = "100%";
    spacer.style.height = `${side * Math.ceil(shown.length / columns)}px`;
  }
  place(across);
});

function place(across) {
  const scroll = across ? list.scrollLeft : list.scrollTop;
  const length = across ? list.clientWidth : list.clientHeight;
  const perLine = across ? 1 : columns;
  const first = Math.max(0, Math.floor(scroll / side) - 1) * perLine;
  const last = Math.min(shown.length, (Math.ceil((scroll + length) / side) + 1) * perLine);
  const now = shown.slice(first, last);
  const there = new Set(now);
  for (const [id, cell] of cells) {
    if (there.has(id)) continue;
    cell.remove();
    cells.delete(id);
  }
  now.forEach((id, k) => {
    const index = first + k;
    let cell = cells.get(id);
    if (!cell) {
      cell = build(id);
      cells.set(id, cell);
      spacer.append(cell);
    }
    const [row, column] = across ? [0, index] : [Math.floor(index / columns), index % columns];
    Object.assign(cell.style, {
      left: `${column * side}px`,
      top: `${row * side}px`,
      width: `${side}px`,
      height: `${side}px`,
    });
    cell.setAttribute("aria-posinset", index + 1);
    cell.setAttribute("aria-setsize", shown.length);
    refresh(id);
  });
  wanted = now;
  clearTimeout(watching);
  watching = setTimeout(() => emit("watch"), 120);
}

function build(id) {
  const image = state.byId.get(id);
  const photo = make("img", { alt: "", decoding: "async", draggable: false });
  photo.src = state.api.image(id, "thumbnail");
  const caption = make("div", { className: "caption" }, make("span", {}, image.name), make("span"));
  const frame = make("div", { className: "frame" }, photo, make("canvas"), caption, make("div", { className: "badge" }));
  const cell = make("div", { className: "cell", role: "option", tabIndex: -1 }, frame);
  cell.dataset.id = id;
  cell.addEventListener("click", () => emit("open", id));
  return cell;
}

/** Bring one cell up to date. */
export function refresh(id) {
  const cell = cells.get(id);
  const image = state.byId.get(id);
  if (!cell || !image) return;
  const selected = id === state.current;
  cell.setAttribute("aria-selected", selected);
  cell.tabIndex = selected || (!cells.has(state.current) && id === shown[0]) ? 0 : -1;
  const [, figure] = cell.querySelector(".caption").children;
  if (image.result && !image.problem) {
    const empty = !Object.values(image.result.areas).some((area) => area > 0);
    const words = make("span", { className: "hidden-text" }, empty ? " of the classes " : " percent confidence ");
    figure.replaceChildren(empty ? "none" : String(Math.round(100 * image.result.confidence)), words);
  } else figure.replaceChildren();
  const badges = [];
  if (image.problem) badges.push(make("span", { className: "bad" }, "cannot be read"));
  if (image.annotated) badges.push(make("span", {}, "annotated"));
  if (image.accepted) badges.push(make("span", { className: "ok" }, "accepted"));
  if (id === state.suggested) badges.push(make("span", { className: "soon" }, "next"));
  cell.querySelector(".badge").replaceChildren(...badges);
  overlay(cell, image);
}

async function overlay(cell, image) {
  const canvas = cell.querySelector("canvas");
  if (!image.result && !image.accepted) {
    canvas.width = canvas.height = 0;
    return;
  }
  const key = image.accepted ? "accepted" : `${image.result.version}-${image.result.stage}-${state.settings.threshold}`;
  const kept = masks.get(image.id);
  if (kept?.key === key) {
    if (canvas.dataset.key !== key || kept.colours !== colours()) draw(canvas, kept, key);
    return;
  }
  if (cell.dataset.loading === key) return;
  cell.dataset.loading = key;
  try {
    const blob = await state.api.small(image.id);
    const bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none" });
    const buffer = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
    buffer.drawImage(bitmap, 0, 0);
    const value = { key, width: bitmap.width, height: bitmap.height };
    value.data = buffer.getImageData(0, 0, bitmap.width, bitmap.height).data;
    masks.delete(image.id);
    masks.set(image.id, value);
    if (masks.size > KEPT) masks.delete(masks.keys().next().value);
    if (cell.isConnected) draw(canvas, value, key);
  } catch {
    // the next event brings it
  } finally {
    delete cell.dataset.loading;
  }
}

const colours = () => state.settings.classes.map((item) => item.colour).join();

function draw(canvas, mask, key) {
  canvas.width = mask.width;
  canvas.height = mask.height;
  canvas.dataset.key = key;
  mask.colours = colours();
  const drawing = new ImageData(mask.width, mask.height);
  for (let i = 0; i < mask.data.length; i += 4) {
    const label = mask.data[i];
    if (!label) continue;
    drawing.data.set([...colour(label), 150], i);
  }
  canvas.getContext("2d").putImageData(drawing, 0, 0);
}

/** Show an image in the list. */
export function reveal(id, focus = false) {
  const index = shown.indexOf(id);
  if (index < 0) return;
  const across = strip();
  const line = across ? index : Math.floor(index / columns);
  const [scroll, length] = across ? [list.scrollLeft, list.clientWidth] : [list.scrollTop, list.clientHeight];
  let target = scroll;
  if (line * side < scroll) target = line * side;
  if ((line + 1) * side > scroll + length) target = (line + 1) * side - length;
  if (target !== scroll) list[across ? "scrollLeft" : "scrollTop"] = target;
  place(across);
  if (focus) cells.get(id)?.focus();
}

list.addEventListener("scroll", layout, { passive: true });
list.addEventListener("keydown", (event) => {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const from = shown.indexOf(event.target.dataset?.id);
  if (from < 0) return;
  let to = null;
  if (event.key in steps) to = from + steps[event.key];
  if (event.key === "Home") to = 0;
  if (event.key === "End") to = shown.length - 1;
  if (event.key === "Enter" || event.key === " ") emit("open", shown[from]);
  else if (to === null) return;
  event.preventDefault();
  event.stopPropagation();
  if (to !== null && shown[to]) reveal(shown[to], true);
});
byId("filter").addEventListener("change", arrange);
new ResizeObserver(layout).observe(list);
on("images", arrange);
on("settings", () => wanted.forEach(refresh));
on("image", (id) => refresh(id));
on("current", () => wanted.forEach(refresh));

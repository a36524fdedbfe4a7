// Opens a project, follows its events, and brings the parts of the page together.

import { about, createProject, ProjectApi } from "./api.js";
import { byId, toast } from "./dom.js";
import "./files.js";
import { order, refresh, reveal, visible } from "./gallery.js";
import "./keys.js";
import { Layers } from "./layers.js";
import { Annotation } from "./marks.js";
import { changed, forget, solve } from "./objective.js";
import { setLabel, showFigures } from "./panel.js";
import { refreshMarks, setImage, setLayers, stage } from "./stage.js";
import { current, emit, on, state } from "./state.js";
import { setTool, setWidth } from "./tools.js";

let source = null; // EventSource
let ready = false; // whether the first image has been chosen
let loading = null; // AbortController of the layers
let latency = null; // milliseconds from the end of a stroke until its result is on screen
let answered = false; // whether the layers that are being loaded are the first answer to a stroke
const annotations = new Map(); // id → Annotation, so that undo lasts as long as the page

async function openProject(id) {
  ready = false;
  state.api = new ProjectApi(id);
  await readProject();
  byId("start").hidden = true;
  byId("work-area").hidden = false;
  source?.close();
  source = state.api.events();
  source.onopen = readProject; // also after the connection was lost
  source.onerror = () => (byId("status").textContent = "The connection is lost; trying again…");
  const hear = (name, work) => source.addEventListener(name, (event) => work(JSON.parse(event.data)));
  hear("result", ({ image, latency: spent, ...result }) => {
    answered ||= Boolean(spent) && image === state.current;
    update(image, { result });
  });
  hear("failed", ({ image, sentence }) => update(image, { problem: sentence }));
  hear("annotated", ({ image, annotated, revision }) => {
    update(image, { annotated });
    const known = annotations.get(image);
    if (known && !known.saving && known.revision < revision) annotations.delete(image);
    if (image === state.current && !annotations.has(image)) openAnnotation();
  });
  hear("accepted", ({ image, accepted }) => update(image, { accepted }));
  hear("settings", (settings) => {
    state.settings = settings;
    emit("settings");
  });
  hear("fit", ({ same, ...progress }) => {
    for (const { result } of same ? state.images : []) {
      if (result?.version === progress.version) result.stage = progress.stage;
    }
    missed?.push({ progress });
    showProgress(progress);
  });
  hear("progress", (progress) => {
    missed?.push({ progress });
    showProgress(progress);
  });
  hear("problem", ({ sentence }) => toast(sentence));
  hear("images", readProject);
  hear("reload", readProject);
  const wanted = location.hash.split("/")[1];
  const first = state.byId.has(wanted) ? wanted : state.images[0]?.id;
  ready = true;
  if (first) openImage(first);
  else byId("hint").textContent = state.inFolder ? "This folder holds no images: drop some here" : "Drop images here";
}

let missed = null; // what events brought while the project was being read

async function readProject() {
  const events = (missed = []);
  let project;
  try {
    project = await state.api.read();
  } finally {
    if (missed !== events) return; // it is being read again, and the later answer counts
    missed = null;
  }
  state.settings = project.settings;
  state.inFolder = project.in_folder;
  state.images = project.images;
  state.byId = new Map(project.images.map((image) => [image.id, image]));
  for (const { id, changes } of events) {
    const image = state.byId.get(id);
    if (image && !(changes.result?.version < image.result?.version)) Object.assign(image, changes);
  }
  for (const annotation of annotations.values()) annotation.retry();
  emit("settings");
  emit("images");
  showProgress(project.progress);
  for (const { progress } of events) {
    if (progress && !(progress.version < project.progress.version)) showProgress(progress);
  }
  showProgress({ segmented: countSegmented() });
  if (!ready) return;
  if (!state.byId.has(state.current) && state.images.length) openImage(state.images[0].id);
  else if (state.current) loadLayers();
}

function update(id, changes) {
  missed?.push({ id, changes });
  const image = state.byId.get(id);
  if (!image) return;
  Object.assign(image, changes);
  refresh(id);
  if ("result" in changes) showProgress({ segmented: countSegmented() });
  if (id !== state.current) return;
  showAccepted();
  if (changed() && "result" in changes) solve();
  else loadLayers();
}

const countSegmented = () => {
  const last = Math.max(...state.images.map((image) => image.result?.version ?? 0));
  return state.images.filter((image) => image.accepted || image.result?.version === last).length;
};

function showProgress(progress) {
  Object.assign(state.progress, progress);
  const { images = 0, seen = 0, segmented = 0, stage: name } = state.progress;
  const marked = name !== null && name !== undefined;
  const bar = byId("progress");
  bar.value = images ? (marked ? segmented : seen) / images : 0;
  const parts = [];
  if (seen < images) parts.push(`features of ${seen} of ${images} images`);
  if (marked) parts.push(segmented < images ? `${segmented} of ${images} segmented` : `all ${images} images are segmented`);
  else if (seen >= images && images) parts.push("ready: mark the object on one image");
  if (latency && marked) parts.push(`answer in ${Math.round(latency)} ms`);
  byId("status").textContent = parts.join(" · ");
  announce(parts.slice(0, seen < images && marked ? 2 : 1).join(", "), segmented >= images || !marked);
  emit("progress");
}

let announced = 0;

/** Tell screen readers how far the work is: when it is done, and else every ten seconds. */
function announce(sentence, done) {
  const box = byId("announcement");
  if (box.textContent === sentence || (!done && performance.now() - announced < 10000)) return;
  announced = performance.now();
  box.textContent = sentence;
}

async function openImage(id) {
  state.current = id;
  const image = current();
  forget();
  history.replaceState(null, "", `#${state.api.id}/${id}`);
  byId("image-name").textContent = image.name;
  stage.canvas.setAttribute("aria-label", `Image ${image.name}`);
  stage.annotation = null;
  emit("current");
  reveal(id);
  showAccepted();
  showFigures();
  watch();
  try {
    const answer = await fetch(state.api.image(id, "pixels"));
    if (!answer.ok) throw new Error((await answer.json()).detail);
    const bitmap = await createImageBitmap(await answer.blob());
    if (state.current !== id) return;
    setImage(bitmap);
  } catch (error) {
    if (state.current === id) setImage(null);
    toast(error.message);
    return;
  }
  await openAnnotation();
  loadLayers();
}

async function openAnnotation() {
  const id = state.current;
  if (!annotations.has(id)) {
    const content = await state.api.annotation(id);
    annotations.set(id, new Annotation(state.api, id, content, annotationChanged));
  }
  if (state.current !== id) return;
  stage.annotation = annotations.get(id);
  annotationChanged(stage.annotation);
}

function annotationChanged(annotation, error) {
  if (error) {
    toast(error.message);
    if (error.status === 409) {
      annotations.delete(annotation.id);
      if (annotation.id === state.current) openAnnotation();
      return;
    }
  }
  if (annotation !== stage.annotation) return;
  byId("undo").disabled = !annotation.before.length;
  byId("redo").disabled = !annotation.after.length;
  byId("complete").checked = annotation.complete;
  const nothing = !state.images.some((image) => image.annotated) && !annotation.marks.length;
  byId("hint").textContent = nothing ? "Paint over a part of the object" : "";
  refreshMarks();
}

/** Fetch the maps of the current image. */
async function loadLayers() {
  const image = current();
  if (!image?.result && !image?.accepted) {
    setLayers(null);
    showFigures();
    return;
  }
  loading?.abort();
  loading = new AbortController();
  try {
    const blob = await state.api.layers(image.id, Math.max(1, state.label), loading.signal);
    const layers = await Layers.decode(blob);
    if (state.current !== image.id || changed()) return;
    setLayers(layers);
    measured(image.id);
    stage.canvas.dataset.version = `${image.result?.version ?? ""}-${image.result?.stage ?? ""}`;
    showFigures();
    solve();
    emit("layers");
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 409) toast(error.message);
  }
}

/** How long a person has waited for the answer that is on screen now. */
function measured(id) {
  const known = annotations.get(id);
  if (!answered || !known?.began || known.dirty || known.saving) return;
  answered = false;
  latency = performance.now() - known.began;
  state.latencies.push(latency);
  showProgress({});
}

function showAccepted() {
  const image = current();
  const button = byId("accept");
  button.setAttribute("aria-pressed", Boolean(image?.accepted));
  button.disabled = !image?.result && !image?.accepted;
  button.querySelector("span").textContent = image?.accepted ? "Accepted" : "Accept";
}

function watch() {
  state.api?.watch(state.current, visible()).catch(() => {});
}

async function suggest() {
  try {
    const [id] = await state.api.next();
    if (!id) return toast("There is no other image to annotate.");
    const before = state.suggested;
    state.suggested = id;
    if (before) refresh(before);
    byId("filter").value = "all";
    emit("images");
    openImage(id);
  } catch (error) {
    toast(error.message);
  }
}

async function accept() {
  const image = current();
  if (!image?.result && !image?.accepted) return;
  try {
    await state.api.accept({ images: [image.id], accepted: !image.accepted });
  } catch (error) {
    toast(error.message);
  }
}

function step(by) {
  const list = order();
  const place = list.indexOf(state.current);
  const next = list[place + by];
  if (next) openImage(next);
}

on("open", openImage);
on("watch", watch);
on("step", step);
on("suggest", suggest);
on("accept", accept);
on("undo", () => stage.annotation?.undo());
on("redo", () => stage.annotation?.redo());
on("reload", readProject);
on("reload-layers", loadLayers);
on("label", () => state.view.heat && loadLayers());
on("wand-failed", toast);
on("wand", (waiting) => byId("stage").classList.toggle("waiting", waiting));
on("create", async ({ examples, done }) => {
  try {
    const project = await createProject({ name: examples ? "Examples" : "New project", examples });
    localStorage.setItem("repri-project", project.id);
    await openProject(project.id);
  } catch (error) {
    toast(error.message);
  }
  done();
});
byId("previous").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
byId("suggest").addEventListener("click", suggest);
byId("accept").addEventListener("click", accept);
byId("undo").addEventListener("click", () => emit("undo"));
byId("redo").addEventListener("click", () => emit("redo"));
byId("complete").addEventListener("change", (event) => {
  stage.annotation?.change(stage.annotation.marks, event.target.checked);
});
byId("accept-all").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const ids = await state.api.accept({ confidence: Number(byId("accept-from").value) });
    toast(`${ids.length} ${ids.length === 1 ? "image was" : "images were"} accepted.`);
  } catch (error) {
    toast(error.message);
  }
});

async function begin() {
  setTool("brush");
  setWidth(16);
  const server = await about();
  state.noWand = server.regions;
  const button = document.querySelector('[data-tool="wand"]');
  button.title = `Magic wand (W). ${state.noWand ?? "Click on an object, or drag a box around it."}`;
  button.setAttribute("aria-disabled", String(state.noWand !== null));
  const wanted = location.hash.slice(1).split("/")[0];
  for (const id of [wanted, server.folder ? "folder" : localStorage.getItem("repri-project")]) {
    if (!/^(folder|[0-9a-f]{32})$/.test(id ?? "")) continue;
    try {
      await openProject(id);
      setLabel(1);
      return;
    } catch {
      state.api = null; // another server, or a project that is gone
    }
  }
  byId("start").hidden = false;
  byId("status").textContent = "";
}

begin().catch((error) => toast(error.message));

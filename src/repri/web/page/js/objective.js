// The paper made tangible: parts of the loss, the threshold, the proportion, and what happens over the steps.

import { byId, percent, toast } from "./dom.js";
import { chart } from "./charts.js";
import { Layers } from "./layers.js";
import { saveSettings, showFigures } from "./panel.js";
import { setLayers, stage } from "./stage.js";
import { current, emit, on, state } from "./state.js";

const threshold = byId("threshold");
const proportion = byId("proportion");
const reset = byId("proportion-reset");
let told = null; // π that a person has set
let running = null; // AbortController of the request under way
let again = false;

const loss = () => document.querySelector('input[name="loss"]:checked').value;
export const changed = () => told !== null || loss() !== "full";

// The slider is finer for small proportions: half of the way is 10 %.
const toProportion = (place) => Math.min(0.98, Math.max(0.001, place ** (Math.log(0.1) / Math.log(0.5))));
const toPlace = (value) => value ** (Math.log(0.5) / Math.log(0.1));

/** Solve the current image again; while one request is under way, only the last wish waits. */
export async function solve() {
  const image = current();
  if (!image || !image.result || image.accepted) return clear();
  if (running) {
    again = true;
    return;
  }
  const label = Math.max(1, state.label);
  if (!(state.settings.classes[label - 1]?.name in image.result.proportions)) return clear(); // not marked yet
  running = new AbortController();
  try {
    const content = { label, loss: loss(), proportion: told };
    const answer = await state.api.solve(image.id, content, running.signal);
    if (image.id === state.current) await show(answer, label);
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 409) toast(error.message);
  } finally {
    running = null;
    if (again) {
      again = false;
      solve();
    }
  }
}

async function show(answer, label) {
  const name = state.settings.classes[label - 1].name;
  if (changed()) {
    const bytes = Uint8Array.from(atob(answer.layers), (character) => character.charCodeAt(0));
    setLayers(await Layers.decode(new Blob([bytes], { type: "image/png" })));
    emit("layers");
  }
  if (told === null) proportion.value = toPlace(answer.proportions[name] ?? 0.1);
  showFigures({ result: answer, told: told !== null, name });
  showValues(answer.proportions[name]);
  const { ce, entropy, kl, marginal, proportion: pi } = answer.steps;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const ink = dark ? ["#98a5ff", "#6fd39c", "#f3bd62"] : ["#3d4ec6", "#18794e", "#b25e09"];
  chart(byId("chart-loss"), [
    { name: "CE", colour: ink[0], values: ce },
    { name: "H", colour: ink[1], values: entropy },
    { name: "KL", colour: ink[2], values: kl },
  ]);
  chart(byId("chart-pi"), [
    { name: "p̂", colour: ink[0], values: marginal },
    { name: "π", colour: ink[2], values: pi, dashed: true },
  ]);
}

function showValues(estimate) {
  byId("threshold-value").textContent = Number(threshold.value).toFixed(2);
  const value = told ?? estimate;
  byId("proportion-value").textContent =
    value === undefined ? "estimated" : `${percent(value, 1)} ${told === null ? "estimated" : "told"}`;
  proportion.setAttribute("aria-valuetext", byId("proportion-value").textContent);
  reset.disabled = told === null;
}

function clear() {
  byId("chart-loss").replaceChildren();
  byId("chart-pi").replaceChildren();
  showValues();
}

/** Forget what was tried on one image. */
export function forget() {
  const different = changed();
  told = null;
  document.querySelector('input[name="loss"][value="full"]').checked = true;
  showValues(current()?.result?.proportions?.[state.settings.classes[Math.max(1, state.label) - 1]?.name]);
  return different;
}

proportion.addEventListener("input", () => {
  told = toProportion(Number(proportion.value));
  showValues();
  solve();
});
reset.addEventListener("click", () => {
  forget();
  emit("reload-layers");
  solve();
});
for (const radio of document.querySelectorAll('input[name="loss"]')) {
  radio.addEventListener("change", () => {
    if (!changed()) emit("reload-layers");
    solve();
  });
}

// Dragging shows the threshold at once; the server makes all masks anew when the slider is let go.
threshold.addEventListener("input", () => {
  byId("threshold-value").textContent = Number(threshold.value).toFixed(2);
  if (stage.layers && state.settings.classes.length === 1) {
    setLayers(stage.layers.thresholded(1, Number(threshold.value)));
    emit("layers");
  }
});
threshold.addEventListener("change", () => saveSettings({ threshold: Number(threshold.value) }));
on("settings", () => {
  threshold.value = state.settings.threshold;
  showValues();
});
on("label", solve);

// Classes, figures of the result, and how it is shown.

import { byId, make, percent, toast } from "./dom.js";
import { current, emit, on, state } from "./state.js";
import { redraw, refreshMarks, refreshOverlay } from "./stage.js";
import { setTool, setWidth } from "./tools.js";

const COLOURS = ["#e5484d", "#0091ff", "#30a46c", "#f5a524", "#8e4ec6", "#00a2c7", "#d6409f", "#978365", "#99d52a"];

export async function saveSettings(changes) {
  const before = state.settings;
  state.settings = { ...before, ...changes };
  emit("settings");
  try {
    state.settings = await state.api.settings(state.settings);
  } catch (error) {
    state.settings = before;
    toast(error.message);
  }
  emit("settings");
}

export function setLabel(label) {
  if (label > state.settings.classes.length) return;
  state.label = label;
  const radio = document.querySelector(`#classes input[type="radio"][value="${label}"]`);
  if (radio) radio.checked = true;
  emit("label");
  redraw();
}

function classRow(label) {
  const radio = make("input", { type: "radio", name: "class", value: String(label), checked: label === state.label });
  radio.addEventListener("change", () => setLabel(label));
  const key = make("kbd", {}, String(label));
  if (label === 0) {
    radio.setAttribute("aria-label", "Background");
    return make("div", { className: "class-row" }, radio, make("span", { className: "swatch" }), make("span", { className: "plain" }, "background"), key);
  }
  const item = state.settings.classes[label - 1];
  radio.setAttribute("aria-label", item.name);
  const swatch = make("input", { type: "color", value: item.colour, "aria-label": `Colour of ${item.name}` });
  const name = make("input", { type: "text", value: item.name, maxLength: 64, "aria-label": `Name of class ${label}` });
  const change = () => {
    const classes = state.settings.classes.map((other, i) =>
      i === label - 1 ? { name: name.value.trim() || other.name, colour: swatch.value } : other,
    );
    saveSettings({ classes });
  };
  swatch.addEventListener("change", change);
  name.addEventListener("change", change);
  name.addEventListener("keydown", (event) => event.key === "Enter" && name.blur());
  return make("div", { className: "class-row" }, radio, swatch, name, key);
}

function showClasses() {
  if (state.label > state.settings.classes.length) state.label = 1;
  const rows = state.settings.classes.map((_, i) => classRow(i + 1));
  byId("classes").replaceChildren(...rows, classRow(0));
  byId("add-class").disabled = rows.length >= 9;
  byId("project-name").textContent = state.settings.name;
  document.title = `${state.settings.name} · repri`;
}

byId("add-class").addEventListener("click", async () => {
  const classes = state.settings.classes;
  const names = new Set(classes.map((item) => item.name));
  let n = classes.length + 1;
  while (names.has(`class ${n}`)) n++;
  await saveSettings({ classes: [...classes, { name: `class ${n}`, colour: COLOURS[classes.length % 9] }] });
  setLabel(state.settings.classes.length);
});

export function showFigures(extra = {}) {
  const image = current();
  const result = extra.result ?? image?.result;
  const rows = [];
  if (image?.problem) rows.push(["problem", image.problem]);
  if (result) {
    rows.push(["confidence", percent(result.confidence)]);
    for (const [name, value] of Object.entries(result.proportions)) {
      const several = Object.keys(result.proportions).length > 1 ? ` of ${name}` : "";
      const told = extra.told && (!several || extra.name === name);
      rows.push([told ? `π told${several}` : `π estimated${several}`, percent(value, 1)]);
      rows.push([`area of the mask${several}`, percent(result.areas[name] ?? 0, 1)]);
      rows.push([`presence${several}`, percent(result.presences[name] ?? 0)]);
    }
  }
  byId("figures").replaceChildren(...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  const chip = byId("stage-name");
  const stage = result?.stage;
  chip.textContent = !result ? "" : stage === "full" ? "settings chosen" : "quick answer";
  chip.classList.toggle("settled", stage === "full");
  const choice = state.progress.choice;
  byId("choice").textContent = !result
    ? "Mark the object in an image, and all images are segmented."
    : choice ?? "The settings are chosen by your annotations when you pause.";
}

// How the result is shown
const view = state.view;
byId("opacity").addEventListener("input", (event) => {
  view.opacity = Number(event.target.value);
  byId("opacity-value").textContent = percent(view.opacity);
  refreshOverlay();
});
for (const [id, name] of [["contour", "contour"], ["heat", "heat"], ["show-mask", "mask"], ["show-marks", "marks"]]) {
  byId(id).addEventListener("change", (event) => {
    view[name] = event.target.checked;
    refreshOverlay();
    refreshMarks();
  });
}

export function toggle(id) {
  byId(id).checked = !byId(id).checked;
  byId(id).dispatchEvent(new Event("change"));
}

// Tools
const buttons = [...document.querySelectorAll("#tools [data-tool]")];
for (const button of buttons) button.addEventListener("click", () => setTool(button.dataset.tool));
on("tool", () => buttons.forEach((button) => button.setAttribute("aria-pressed", button.dataset.tool === state.tool)));
const slider = byId("size");
slider.addEventListener("input", () => setWidth(Math.exp(Number(slider.value) * Math.log(400))));
on("width", () => {
  slider.value = Math.log(state.width) / Math.log(400);
  slider.setAttribute("aria-valuetext", `${state.width} pixels`);
  byId("size-value").textContent = state.width;
});
on("settings", () => {
  showClasses();
  refreshMarks();
  refreshOverlay();
});
on("progress", () => showFigures());

// Small line charts as SVG.

import { make } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 280;
const HEIGHT = 110;
const LEFT = 30;
const BOTTOM = 16;

function shape(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Draw lines [{ name, colour, values }] into a box; the last values are in the legend. */
export function chart(box, lines, { low = 0, high = null } = {}) {
  const drawn = lines.filter((line) => line.values.length > 1);
  if (!drawn.length) {
    box.replaceChildren(make("p", { className: "note" }, "No steps were taken."));
    return;
  }
  const top = high ?? Math.max(...drawn.flatMap((line) => line.values), 1e-6) * 1.05;
  const steps = drawn[0].values.length;
  const x = (i) => LEFT + ((WIDTH - LEFT - 4) * i) / Math.max(1, steps - 1);
  const y = (value) => 4 + (HEIGHT - BOTTOM - 4) * (1 - (Math.min(value, top) - low) / (top - low));
  const words = drawn.map((line) => `${line.name} ends at ${line.values.at(-1).toFixed(3)}`).join(", ");
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words });
  for (const value of [low, (low + top) / 2, top]) {
    svg.append(shape("line", { class: "axis", x1: LEFT, x2: WIDTH - 4, y1: y(value), y2: y(value) }));
    const digits = top < 0.2 ? 3 : 2;
    svg.append(shape("text", { x: LEFT - 5, y: y(value) + 3.5, "text-anchor": "end" }, value.toFixed(digits)));
  }
  svg.append(shape("text", { x: LEFT, y: HEIGHT - 3 }, "1"));
  svg.append(shape("text", { x: WIDTH - 4, y: HEIGHT - 3, "text-anchor": "end" }, `step ${steps}`));
  for (const line of drawn) {
    const path = line.values.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    const attributes = { d: path, fill: "none", stroke: line.colour, "stroke-width": 2 };
    if (line.dashed) attributes["stroke-dasharray"] = "5 4";
    svg.append(shape("path", attributes));
  }
  const legend = make("div", { className: "legend" });
  for (const line of drawn) {
    const key = make("i");
    key.style.background = line.colour;
    legend.append(make("span", {}, key, `${line.name} ${line.values.at(-1).toFixed(3)}`));
  }
  box.replaceChildren(svg, legend);
}

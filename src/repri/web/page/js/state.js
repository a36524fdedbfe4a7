// What the page knows, and who wants to hear of changes.

const listeners = new Map();

export const state = {
  api: null,
  settings: { name: "", classes: [], threshold: 0.5 },
  inFolder: false,
  images: [], // { id, name, annotated, accepted, result, problem }
  byId: new Map(),
  current: null, // id
  suggested: null, // id
  progress: {},
  latencies: [], // milliseconds from the end of each stroke until its result was on screen
  tool: "brush",
  noWand: null, // why there is no magic wand
  label: 1, // 0 background, 1 … N classes
  width: 16,
  view: { opacity: 0.5, mask: true, contour: true, heat: false, marks: true },
};

export function on(name, work) {
  if (!listeners.has(name)) listeners.set(name, []);
  listeners.get(name).push(work);
}

export function emit(name, detail) {
  for (const work of listeners.get(name) ?? []) work(detail);
}

export const current = () => state.byId.get(state.current) ?? null;

/** Colour of a label as [r, g, b]. */
export function colour(label) {
  const text = label === 0 ? "#7d8794" : state.settings.classes[label - 1]?.colour ?? "#888888";
  return [1, 3, 5].map((place) => parseInt(text.slice(place, place + 2), 16));
}

export const cssColour = (label) => `rgb(${colour(label).join(" ")})`;

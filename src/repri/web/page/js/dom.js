// Elements and messages. Text is only ever set as text, so names can hold anything.

export const byId = (id) => document.getElementById(id);

/** An element with properties and children; strings become text. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "role") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Show one sentence for a few seconds. */
export function toast(sentence) {
  const box = byId("toasts");
  if ([...box.children].some((child) => child.textContent === sentence)) return;
  const note = make("p", { className: "toast" }, sentence);
  box.append(note);
  setTimeout(() => note.remove(), 7000);
}

export const percent = (value, digits = 0) => `${(100 * value).toFixed(digits)} %`;

/** Calls a function at most once in each frame. */
export function oncePerFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

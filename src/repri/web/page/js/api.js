// The server's API. An answer that is no success throws an error with the server's sentence.

export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer. Is it still running?");
  }
  if (answer.ok) return answer;
  let sentence = `The server answered ${answer.status}.`;
  try {
    const { detail } = await answer.json();
    if (typeof detail === "string") sentence = detail;
    else if (detail?.[0]?.msg) sentence = `${detail[0].msg}.`;
  } catch {
    // no JSON: the status says enough
  }
  throw new Refused(answer.status, sentence);
}

const sending = (method, content) => ({
  method,
  headers: { "content-type": "application/json" },
  body: JSON.stringify(content),
});

function form(files) {
  const data = new FormData();
  for (const file of files) data.append("files", file, file.name);
  return { method: "POST", body: data };
}

export const about = async () => (await ask("/api/about")).json();
export const createProject = async (content) => (await ask("/api/projects", sending("POST", content))).json();

/** The addresses of one project. */
export class ProjectApi {
  constructor(id) {
    this.id = id;
    this.root = `/api/projects/${id}`;
  }

  image(id, part) {
    return `${this.root}/images/${id}/${part}`;
  }

  async read() {
    return (await ask(this.root)).json();
  }

  async settings(content) {
    return (await ask(`${this.root}/settings`, sending("PUT", content))).json();
  }

  async watch(current, visible) {
    await ask(`${this.root}/watch`, sending("POST", { current, visible: visible.slice(0, 500) }));
  }

  async next(count = 1) {
    return (await ask(`${this.root}/next?count=${count}`)).json();
  }

  async send(files) {
    return (await ask(`${this.root}/images`, form(files))).json();
  }

  async annotation(id) {
    return (await ask(this.image(id, "annotation"))).json();
  }

  async annotate(id, annotation) {
    return (await ask(this.image(id, "annotation"), sending("PUT", annotation))).json();
  }

  async region(id, content) {
    return (await ask(this.image(id, "region"), sending("POST", content))).json();
  }

  async layers(id, label, signal) {
    return (await ask(`${this.image(id, "layers.png")}?label=${label}`, { signal })).blob();
  }

  async small(id) {
    return (await ask(this.image(id, "small.png"))).blob();
  }

  async solve(id, content, signal) {
    return (await ask(this.image(id, "solve"), { ...sending("POST", content), signal })).json();
  }

  async accept(content) {
    return (await ask(`${this.root}/accept`, sending("POST", content))).json();
  }

  async exportZip(formats, acceptedOnly) {
    const query = new URLSearchParams(formats.map((format) => ["formats", format]));
    query.set("accepted_only", acceptedOnly);
    return (await ask(`${this.root}/export.zip?${query}`)).blob();
  }

  async exportFolder(formats, acceptedOnly) {
    return (await ask(`${this.root}/export`, sending("POST", { formats, accepted_only: acceptedOnly }))).json();
  }

  async importMasks(files) {
    return (await ask(`${this.root}/import`, form(files))).json();
  }

  events() {
    return new EventSource(`${this.root}/events`);
  }
}

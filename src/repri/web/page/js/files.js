// Files in and out: images that are dropped, masks that come back, and exports.

import { byId, toast } from "./dom.js";
import { emit, state } from "./state.js";

const AT_ONCE = 8; // images in one request

export async function sendImages(files) {
  const images = [...files].filter((file) => !file.type || file.type.startsWith("image/"));
  if (!images.length) return toast("These files are not images.");
  if (!state.api) await new Promise((done) => emit("create", { examples: false, done }));
  if (!state.api) return;
  for (let i = 0; i < images.length; i += AT_ONCE) {
    byId("status").textContent = `Sending image ${i + 1} of ${images.length}…`;
    try {
      await state.api.send(images.slice(i, i + AT_ONCE));
    } catch (error) {
      toast(error.message);
    }
  }
  emit("reload");
}

const drop = byId("drop");
let depth = 0;
const holdsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
window.addEventListener("dragenter", (event) => {
  if (!holdsFiles(event)) return;
  depth++;
  drop.hidden = false;
});
window.addEventListener("dragleave", (event) => {
  if (holdsFiles(event) && --depth <= 0) drop.hidden = true;
});
window.addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
window.addEventListener("drop", (event) => {
  if (!holdsFiles(event)) return;
  event.preventDefault();
  depth = 0;
  drop.hidden = true;
  sendImages(event.dataTransfer.files);
});

const file = byId("file");
for (const id of ["add", "choose"]) byId(id).addEventListener("click", () => file.click());
file.addEventListener("change", () => {
  sendImages([...file.files]);
  file.value = "";
});
byId("examples").addEventListener("click", () => emit("create", { examples: true, done: () => {} }));

const dialog = byId("export-dialog");
const formats = () => [...dialog.querySelectorAll('input[name="format"]:checked')].map((box) => box.value);
byId("export").addEventListener("click", () => {
  if (!state.api) return toast("There are no images yet.");
  byId("export-folder").hidden = !state.inFolder;
  dialog.showModal();
});
byId("export-close").addEventListener("click", () => dialog.close());
byId("export-zip").addEventListener("click", async () => {
  if (!formats().length) return toast("Choose at least one format.");
  try {
    const blob = await state.api.exportZip(formats(), byId("accepted-only").checked);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = "repri-results.zip";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    dialog.close();
  } catch (error) {
    toast(error.message);
  }
});
byId("export-folder").addEventListener("click", async () => {
  if (!formats().length) return toast("Choose at least one format.");
  try {
    const { folder } = await state.api.exportFolder(formats(), byId("accepted-only").checked);
    toast(`The results are in ${folder}.`);
    dialog.close();
  } catch (error) {
    toast(error.message);
  }
});

const maskFile = byId("mask-file");
byId("import-masks").addEventListener("click", () => maskFile.click());
maskFile.addEventListener("change", async () => {
  try {
    const images = await state.api.importMasks([...maskFile.files]);
    toast(`${images.length} ${images.length === 1 ? "mask was" : "masks were"} imported.`);
    dialog.close();
    emit("reload");
  } catch (error) {
    toast(error.message);
  }
  maskFile.value = "";
});

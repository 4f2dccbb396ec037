// Models, adapters and aliases that are served, and what changes them while the platform runs.

import { ask, get, poll } from "./api.js";
import { announce, failure, h, show } from "./dom.js";
import { LiveTable } from "./livetable.js";

const REFRESH_MS = 2_000;
const CHANGE_MS = 600_000;

/** A panel that reads and draws itself, and stays hidden where models are chosen at the start. */
export function servedSection(signal) {
  const table = new LiveTable("Models served", [["Name"], ["Kind", false, "wraps"], [h("span", { class: "offscreen" }, "Actions"), true]], "Nothing is served.");
  const said = h("p", { class: "muted small" });
  let models = [];
  const buttons = h("div", { class: "row panel-actions" }, button("load-model", "Load a model…", () => openLoad(models)), button("name-model", "Add an alias…", () => openName(models)));
  const section = h("section", { class: "panel flush", hidden: true },
    h("h2", {}, "Models served"), buttons, table.element, said);
  let isOffered = true;
  const read = async () => {
    if (!isOffered) return;
    try {
      const served = await get("headrace/models", signal);
      models = served.models.filter((one) => !one.adapter_of).map((one) => one.name);
      section.hidden = false;
      table.fill([...served.models.map((one) => row(one, served)), ...Object.entries(served.aliases).map(([name, model]) => aliasRow(name, model))]);
      const coming = [...served.loading.map((name) => `${name} is being loaded.`), ...Object.entries(served.refused).map(([name, why]) => `${name} could not be changed: ${why}`)];
      show(said, coming.map((line) => h("span", { class: "inset" }, line)));
    } catch (error) {
      // Not on this platform: models are chosen where workers are started.
      isOffered = error.status !== 501;
      section.hidden = true;
    }
  };
  poll(read, REFRESH_MS, signal);
  return section;
}

const button = (name, label, click) => h("button", { type: "button", class: "quiet small", "data-focus": name, on: { click } }, label);

function row(one, served) {
  const kind = one.adapter_of ? `adapter of ${one.adapter_of}` : "model";
  if (served.unloading.includes(one.name)) return [one.name, `${kind}, being unloaded`, ""];
  const unload = button(`unload-${one.name}`, "Unload", () => openUnload(one.name, `headrace/models/${encode(one.name)}`,
    "New requests get an error at once, and running ones have four seconds. It can be loaded again."));
  if (one.pinned === null) return [one.name, kind, unload];
  const pin = button(`pin-${one.name}`, one.pinned ? "Unpin" : "Pin", () => openPin(one.name, !one.pinned));
  return [one.name, one.pinned ? `${kind}, pinned` : kind, h("span", { class: "row end" }, pin, unload)];
}

const aliasRow = (name, model) => [name, `alias of ${model}`, button(`unload-${name}`, "Remove", () => openUnload(name, `headrace/aliases/${encode(name)}`, `${model} is still served.`))];

const encode = (name) => name.split("/").map(encodeURIComponent).join("/");

function openLoad(models) {
  const name = text("load-name", "my-model");
  const source = text("load-source", "/path/to/model.gguf");
  const base = h("select", { id: "load-base" }, h("option", { value: "" }, "None (a full model)"), models.map((model) => h("option", { value: model }, model)));
  open("Load a model", "Load", [field("Name", name), field("Folder or GGUF file on the platform's machine, a pulled hub id, or a name of the catalogue", source), field("LoRA adapter of", base)],
    "It is served as soon as it is ready; running requests are not interrupted. It needs additional memory.",
    async (abort) => {
      await ask("POST", "headrace/models", { name: name.value.trim(), source: source.value.trim(), adapter_of: base.value }, abort);
      return `${name.value.trim()} is served`;
    });
}

function openName(models) {
  const name = text("alias-name", "gpt-4o");
  const model = h("select", { id: "alias-model" }, models.map((one) => h("option", { value: one }, one)));
  open("Add an alias", "Add", [field("Name", name), field("Model that answers", model)], "A name that is taken already stands for this model from then on.",
    async (abort) => {
      await ask("PUT", `headrace/aliases/${encode(name.value.trim())}`, { model: model.value }, abort);
      return `${name.value.trim()} is answered by ${model.value}`;
    });
}

const openUnload = (name, path, what) => open(`Take ${name} away`, "Take away", [], what, async (abort) => {
  await ask("DELETE", path, undefined, abort);
  return `${name} is no longer served`;
});

const openPin = (name, isPinned) => open(isPinned ? `Pin ${name}` : `Unpin ${name}`, isPinned ? "Pin" : "Unpin", [],
  isPinned ? "It stays in memory, whatever other models are wanted. They share what is left." : "It leaves memory when others need the room, and comes back when it is asked.",
  async (abort) => {
    await ask(isPinned ? "PUT" : "DELETE", `headrace/pins/${encode(name)}`, undefined, abort);
    return isPinned ? `${name} is pinned` : `${name} takes turns`;
  });

const text = (id, example) => h("input", { id, required: true, placeholder: example, autocomplete: "off", spellcheck: "false" });
const field = (label, control) => h("div", { class: "field" }, h("label", { for: control.id }, label), control);

/** Opens a dialog that makes one change, and stays open where the change fails. */
function open(title, verb, fields, what, change) {
  const said = h("div", {});
  const confirm = h("button", { type: "submit", class: "primary", id: "served-confirm" }, verb);
  const submit = async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    show(said, h("p", { class: "muted small", role: "status" }, "Working…"));
    try {
      announce(await change(AbortSignal.timeout(CHANGE_MS)));
      dialog.close();
    } catch (error) {
      show(said, failure(error));
      confirm.disabled = false;
    }
  };
  const dialog = h("dialog", { id: "served-dialog", "aria-labelledby": "served-dialog-title", on: { close: () => dialog.remove() } },
    h("form", { method: "dialog", on: { submit } }, h("h2", { id: "served-dialog-title" }, title), fields, h("p", { class: "muted small" }, what), said,
      h("div", { class: "row end" }, h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Cancel"), confirm)));
  document.body.append(dialog);
  dialog.showModal();
}

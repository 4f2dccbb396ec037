// The list of kept conversations: found, named, taken out, saved to a file and read from one.

import { archive } from "./archive.js";
import { announce, h, show } from "./dom.js";
import { iconButton } from "./icons.js";
import { endTalk, openTalk } from "./talk.js";
import { asJson, download, readTransfer } from "./transfer.js";

const DAY_MS = 86_400_000;
const search = { text: "" };

export class Shelf {
  /** `actions`: current(), the id of the conversation shown; undo(text, undo); fail(error); gone(id), after one was taken out; went(), after one was chosen. */
  constructor(actions, signal) {
    this.actions = actions;
    this.list = h("div", { class: "shelf-list" });
    const find = h("input", { type: "search", id: "shelf-search", placeholder: "Search", "aria-label": "Search conversations", value: search.text, on: { input: () => { search.text = find.value; this.draw(); } } });
    const picker = h("input", { type: "file", accept: ".json,application/json", hidden: true, id: "import-file", on: { change: () => { this.read(picker.files[0]); picker.value = ""; } } });
    this.element = h("div", { class: "shelf" }, h("a", { class: "button primary", id: "new-chat", href: "#/chat", on: { click: () => actions.went() } }, "New chat"), find, this.list, picker,
      h("div", { class: "row shelf-foot" }, h("button", { type: "button", class: "quiet small", on: { click: () => picker.click() } }, "Import"), h("button", { type: "button", class: "quiet small", id: "export-all", on: { click: () => this.exportAll() } }, "Export all")));
    archive.addEventListener("change", () => this.draw(), { signal });
  }

  draw() {
    if (this.list.querySelector("input")) return;
    const found = archive.find(search.text);
    const groups = new Map();
    for (const one of found) groups.set(periodOf(one.updated), [...(groups.get(periodOf(one.updated)) ?? []), one]);
    show(this.list, found.length ? [...groups].map(([period, ones]) => [h("h2", { class: "small" }, period), h("ul", {}, ones.map((one) => this.entry(one)))])
      : h("p", { class: "muted small" }, search.text ? "Nothing found." : "Conversations are kept here, in this browser only."));
  }

  entry({ id, title }) {
    const name = title || "Untitled";
    const row = h("li", {}, h("a", { href: `#/chat/${id}`, "aria-current": id === this.actions.current() ? "page" : null, title: name, "data-focus": `open-${id}`, on: { click: () => this.actions.went() } }, name),
      iconButton("edit", `Rename ${name}`, () => this.rename(row, id, name), { "data-focus": `rename-${id}` }), iconButton("remove", `Delete ${name}`, () => this.remove(id, name), { "data-focus": `remove-${id}` }));
    return row;
  }

  rename(row, id, title) {
    const field = h("input", { "aria-label": "Title", value: title, maxlength: 100 });
    let isOver = false;
    const end = async (isKept) => {
      if (isOver) return;
      isOver = true;
      field.remove();
      if (isKept && field.value.trim() && field.value !== title) await this.keepTitle(id, field.value);
      this.draw();
      this.list.querySelector(`[data-focus="rename-${id}"]`)?.focus();
    };
    field.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === "Escape") { event.preventDefault(); event.stopPropagation(); end(event.key === "Enter"); } });
    field.addEventListener("blur", () => end(true));
    show(row, field);
    field.focus();
    field.select();
  }

  async keepTitle(id, title) {
    const talk = await openTalk(id);
    talk?.conversation.rename(title);
    await talk?.save();
    talk?.emit("change");
  }

  async remove(id, name) {
    endTalk(id);
    const record = await archive.remove(id);
    const wasShown = id === this.actions.current();
    const undo = async () => { await archive.put(record); if (wasShown) location.hash = `#/chat/${id}`; };
    if (record) this.actions.undo(`“${name}” deleted.`, undo);
    this.actions.gone(id);
    this.element.querySelector("#new-chat").focus();
  }

  async exportAll() {
    download("conversations.json", "application/json", asJson(await archive.readEvery()));
  }

  async read(file) {
    try {
      const records = await readTransfer(file);
      for (const record of records) {
        const problem = await archive.put(record);
        if (problem) throw new Error(problem);
      }
      announce(records.length === 1 ? "1 conversation imported" : `${records.length} conversations imported`);
      this.actions.fail(null);
    } catch (error) {
      this.actions.fail(error);
    }
  }
}

function periodOf(time) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (time >= today) return "Today";
  if (time >= today - DAY_MS) return "Yesterday";
  return time >= today - 7 * DAY_MS ? "Last 7 days" : "Older";
}

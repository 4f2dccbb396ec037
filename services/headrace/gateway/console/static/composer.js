// The box to write in: grows with its text, sends with Enter, and takes text files.

import { MOST_FILES, readAttachment } from "./attachment.js";
import { announce, h, show } from "./dom.js";
import { bytes } from "./format.js";
import { icon, iconButton } from "./icons.js";

export class Composer {
  /** `actions`: send(text, files), which returns whether it was taken; stop(); isRunning(); fail(error); draft(text);
   * leave(), at Esc, after which single keys are shortcuts. */
  constructor(actions, signal) {
    this.actions = actions;
    this.files = [];
    this.area = h("textarea", { id: "chat-box", rows: 1, "data-shortcut": "compose", "aria-label": "Your message", placeholder: "Ask something",
      on: { input: () => { this.grow(); actions.draft(this.area.value); }, keydown: (event) => this.onKey(event), paste: (event) => this.onPaste(event) } });
    this.chosen = h("ul", { class: "files", "aria-label": "Attached files" });
    this.picker = h("input", { type: "file", multiple: true, hidden: true, on: { change: () => { this.attach([...this.picker.files]); this.picker.value = ""; } } });
    this.main = h("span", {});
    this.context = h("span", { class: "context muted small", id: "context" });
    this.element = h("form", { class: "box", on: { submit: (event) => { event.preventDefault(); this.send(); } } }, this.chosen, this.area,
      h("div", { class: "box-row" }, this.picker, iconButton("attach", "Attach a text file", () => this.picker.click(), { id: "attach" }), this.context, h("span", { class: "spacer" }), this.main));
    addEventListener("dragover", (event) => { if (hasFiles(event)) { event.preventDefault(); this.markDrop(true); } }, { signal });
    addEventListener("dragleave", (event) => { if (!event.relatedTarget) this.markDrop(false); }, { signal });
    addEventListener("drop", (event) => { if (hasFiles(event)) { event.preventDefault(); this.markDrop(false); this.attach([...event.dataTransfer.files]); } }, { signal });
    this.drawFiles();
    this.drawMain();
  }

  fill(text) {
    this.area.value = text;
    this.grow();
  }

  focus() {
    this.area.focus({ preventScroll: true });
  }

  grow() {
    this.area.style.height = "auto";
    this.area.style.height = `${this.area.scrollHeight + 2}px`;
  }

  /** Enter sends, but for one that ends the writing of a character (an input method's). */
  onKey(event) {
    if (event.key === "Escape" && !event.isComposing && !this.actions.isRunning()) this.actions.leave();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    this.send();
  }

  onPaste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.attach(files);
  }

  send() {
    const text = this.area.value;
    if (this.actions.isRunning()) { announce("Wait for the answer, or stop it"); return; }
    if (!text.trim() && !this.files.length) return;
    this.actions.draft("");
    if (!this.actions.send(text, this.files)) { this.actions.draft(text); return; }
    this.files = [];
    this.drawFiles();
    this.fill("");
  }

  async attach(files) {
    for (const file of files) {
      try {
        if (this.files.length >= MOST_FILES) throw new Error(`At most ${MOST_FILES} files go with a message.`);
        this.files.push(await readAttachment(file));
        this.actions.fail(null);
      } catch (error) {
        this.actions.fail(error);
      }
    }
    this.drawFiles();
    this.focus();
  }

  markDrop(isOver) {
    this.element.classList.toggle("dropping", isOver);
  }

  drawFiles() {
    this.chosen.hidden = !this.files.length;
    show(this.chosen, this.files.map((file) => h("li", {}, h("span", {}, file.name), h("span", { class: "muted" }, bytes(file.text.length)),
      iconButton("close", `Remove ${file.name}`, () => { this.files = this.files.filter((one) => one !== file); this.drawFiles(); this.focus(); }))));
  }

  drawMain() {
    const [name, label, type] = this.actions.isRunning() ? ["stop", "Stop", "button"] : ["send", "Send", "submit"];
    if (this.main.firstChild?.id === `chat-${name}`) return;
    const click = name === "stop" ? { click: () => this.actions.stop() } : {};
    show(this.main, h("button", { type, id: `chat-${name}`, class: "primary round", "aria-label": label, title: name === "stop" ? "Stop (Esc)" : "Send (Enter)", "data-focus": "main", on: click }, icon(name)));
  }
}

const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

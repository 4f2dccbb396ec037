// The drawer of settings: what is sent with each message of a conversation. An empty field leaves it to the model.

import { announce, h, show } from "./dom.js";
import { iconButton } from "./icons.js";
import { keepPreset, readPresets, removePreset } from "./presets.js";
import { NUMBERS, numbersOf } from "./prompt.js";
import { MOST_ANSWERS } from "./talk.js";

const field = (id, label, control) => h("div", { class: "field" }, h("label", { for: id }, label), control);

export class SettingsDrawer {
  /** `actions`: settings(), the object that is changed; changed(); others(), names of models to compare with. */
  constructor(actions) {
    this.actions = actions;
    this.body = h("div", { class: "stack" });
    this.said = h("p", { class: "said bad small", role: "status" });
    this.element = h("dialog", { class: "drawer drawer-end", id: "settings-drawer", "aria-labelledby": "settings-title", on: { click: (event) => { if (event.target === this.element) this.element.close(); } } },
      h("div", { class: "drawer-body stack" }, h("div", { class: "row" }, h("h2", { id: "settings-title" }, "Settings"), h("span", { class: "spacer" }), iconButton("close", "Close settings", () => this.element.close())), this.body));
  }

  open() {
    this.draw();
    this.element.showModal();
  }

  draw() {
    const others = this.actions.others();
    show(this.body, h("p", { class: "muted small" }, "Applies to this conversation and to new ones. Leave a field empty for the model's default."),
      field("s-system", "System prompt", this.control("textarea", "system", { rows: 4, placeholder: "You are a helpful assistant." })),
      h("div", { class: "pairs" }, NUMBERS.map(([name, label, limits]) => field(`s-${name}`, label, this.control("input", name, { type: "number", placeholder: name === "seed" ? "random" : "default", inputmode: "decimal", ...limits })))), this.said,
      h("div", { class: "pairs" }, field("s-count", "Answers at once", this.choice("count", Array.from({ length: MOST_ANSWERS }, (_, at) => [at ? String(at + 1) : "", String(at + 1)]))),
        others.length > 0 && field("s-compare", "Compare with", this.choice("compare", [["", "no other model"], ...others.map((name) => [name, name])]))),
      h("div", { class: "row" }, h("button", { type: "button", class: "quiet", on: { click: () => this.replace({}) } }, "Clear all")), this.presets());
  }

  control(tag, name, props) {
    const settings = this.actions.settings();
    const made = h(tag, { id: `s-${name}`, ...props, value: settings[name] ?? "", on: { input: () => this.set(name, made.value) } });
    return made;
  }

  choice(name, options) {
    const made = this.control("select", name, {});
    made.append(...options.map(([value, text]) => h("option", { value }, text)));
    made.value = this.actions.settings()[name] ?? "";
    return made;
  }

  set(name, value) {
    const settings = this.actions.settings();
    if (value === "") delete settings[name];
    else settings[name] = value;
    this.check();
    this.actions.changed();
  }

  check() {
    try {
      numbersOf(this.actions.settings());
      this.said.textContent = "";
    } catch (error) {
      this.said.textContent = error.message;
    }
  }

  replace(settings) {
    const held = this.actions.settings();
    for (const name of Object.keys(held)) delete held[name];
    Object.assign(held, settings);
    this.check();
    this.actions.changed();
    this.draw();
  }

  presets() {
    const names = Object.keys(readPresets()).sort();
    const name = h("input", { id: "preset-name", maxlength: 60, placeholder: "precise", autocomplete: "off" });
    const save = (event) => {
      event.preventDefault();
      const title = name.value.trim();
      if (!title) { name.focus(); return; }
      const problem = keepPreset(title, { ...this.actions.settings() });
      announce(problem || `Preset ${title} saved`);
      this.draw();
    };
    return h("section", { class: "stack presets" }, h("h3", {}, "Presets"),
      names.length > 0 && h("ul", {}, names.map((one) => h("li", {}, h("button", { type: "button", class: "quiet", "data-focus": `preset-${one}`, on: { click: () => { this.replace(readPresets()[one]); announce(`Preset ${one} used`); } } }, one),
        iconButton("remove", `Delete preset ${one}`, () => { removePreset(one); this.draw(); })))),
      h("form", { class: "row", on: { submit: save } }, h("div", { class: "field grows" }, h("label", { for: "preset-name" }, "Name"), name), h("button", { type: "submit", class: "quiet" }, "Save as preset")));
  }
}

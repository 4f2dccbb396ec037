// A button that opens a short list of things to do.

import { h } from "./dom.js";
import { icon } from "./icons.js";

/** `entries`: pairs of a label and what it does. */
export function menu(label, entries) {
  const close = () => { list.hidden = true; button.setAttribute("aria-expanded", "false"); };
  const act = (run) => () => { close(); button.focus(); run(); };
  const list = h("div", { class: "menu-list", hidden: true, id: "menu-list" }, entries.map(([text, run]) => h("button", { type: "button", on: { click: act(run) } }, text)));
  const button = h("button", { type: "button", class: "icon-button", id: "menu", "aria-label": label, title: label, "aria-expanded": "false", "aria-controls": "menu-list", on: { click: () => { list.hidden = !list.hidden; button.setAttribute("aria-expanded", String(!list.hidden)); } } }, icon("more"));
  const element = h("div", { class: "menu", on: {
    keydown: (event) => { if (event.key === "Escape" && !list.hidden) { event.stopPropagation(); close(); button.focus(); } },
    focusout: (event) => { if (!element.contains(event.relatedTarget)) close(); },
  } }, button, list);
  return element;
}

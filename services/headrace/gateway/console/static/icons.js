// Small drawings of lines, each beside or in place of a word that screen readers get.

import { h, svg } from "./dom.js";

const PATHS = {
  attach: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7L9.3 17a1.7 1.7 0 0 1-2.4-2.4L14.5 7",
  auto: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  back: "M15 5l-7 7 7 7",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  dark: "M20 14a8 8 0 1 1-10-10 7 7 0 0 0 10 10z",
  down: "M12 5v14M5 12l7 7 7-7",
  edit: "M4 20l1-5L16 4l4 4L9 19zM14 6l4 4",
  forward: "M9 5l7 7-7 7",
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5",
  list: "M4 6h16M4 12h16M4 18h10",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  new: "M12 5v14M5 12h14",
  again: "M20 11a8 8 0 1 0-2 6M20 5v6h-6",
  remove: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v6M14 11v6",
  send: "M12 19V5M5 12l7-7 7 7",
  settings: "M4 7h8M17 7h3M14.5 4.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM4 17h3M12 17h8M9.5 14.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z",
  stop: "M7 7h10v10H7z",
};

export function icon(name) {
  return svg("svg", { class: `icon icon-${name}`, viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}

export function iconButton(name, label, click, more = {}) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, ...more, on: { click } }, icon(name));
}

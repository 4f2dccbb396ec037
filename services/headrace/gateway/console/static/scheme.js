// The color scheme: that of the system, light, or dark.

import { show } from "./dom.js";
import { icon } from "./icons.js";

const THEMES = ["auto", "light", "dark"];

const chosenTheme = () => document.documentElement.dataset.theme ?? "auto";

export function nextTheme(button) {
  const name = THEMES[(THEMES.indexOf(chosenTheme()) + 1) % THEMES.length];
  if (name === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("headrace.theme");
  } else {
    document.documentElement.dataset.theme = name;
    localStorage.setItem("headrace.theme", name);
  }
  describeTheme(button);
}

export function describeTheme(button) {
  const name = chosenTheme();
  show(button, icon(name));
  for (const attribute of ["aria-label", "title"]) button.setAttribute(attribute, `Color scheme: ${name}`);
}

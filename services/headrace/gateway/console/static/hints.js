// Words that explain themselves: a mouse gets a title, the keyboard and a finger the same text beside the word.

import { h } from "./dom.js";

const MARGIN = 16;

const box = h("div", { class: "hint-box", role: "tooltip", id: "hint-box", hidden: true });

/** A word with its meaning. `name`: keeps the focus while its surroundings are drawn again. */
export function hint(word, meaning, name = word) {
  return h("button", { type: "button", class: "hint", title: meaning, "data-focus": `hint-${name}`, on: {
    focus: (event) => reveal(event.currentTarget, meaning), blur: hide, keydown: (event) => { if (event.key === "Escape") hide(); },
  } }, word);
}

function reveal(button, meaning) {
  box.textContent = meaning;
  button.closest("main").append(box);
  box.hidden = false;
  const { left, bottom } = button.getBoundingClientRect();
  box.style.setProperty("--left", `${Math.max(MARGIN, Math.min(left, innerWidth - box.offsetWidth - MARGIN))}px`);
  box.style.setProperty("--top", `${bottom + 4}px`);
}

function hide() {
  box.hidden = true;
}

// The form for embedding models: two texts, their vectors, and how close they are.

import { ask, readKey } from "./api.js";
import { copyButton, facts, failure, h, show } from "./dom.js";
import { count, milliseconds } from "./format.js";
import { asCurl, embeddingAsPython } from "./snippets.js";
import { waterfall } from "./waterfall.js";

const SHOWN = 8;
const texts = ["How do I reset my password?", "I forgot my password."];

export function embeddingForm(model) {
  const result = h("div", { class: "stack" });
  const areas = texts.map((text, at) => {
    const area = h("textarea", { id: `embed-${at}`, rows: 3, on: { input: () => { texts[at] = area.value; } } });
    area.value = text;
    return h("div", { class: "field" }, h("label", { for: `embed-${at}` }, at ? "Second text (optional)" : "First text"), area);
  });
  const body = () => ({ model, input: texts.filter((text) => text.trim()), timings: true });
  const submit = async (event) => {
    event.preventDefault();
    const began = performance.now();
    try {
      const content = await ask("POST", "v1/embeddings", body());
      show(result, ...draw(content, performance.now() - began));
    } catch (error) {
      show(result, failure(error));
    }
  };
  return h("form", { class: "stack", on: { submit } }, h("section", { class: "panel stack" }, h("div", { class: "halves" }, areas),
    h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Embed"),
      copyButton("Copy as curl", "Command", () => asCurl("v1/embeddings", body(), "default", readKey())),
      copyButton("Copy as Python", "Code", () => embeddingAsPython(body(), readKey())))), result);
}

const dot = (one, two) => one.reduce((sum, value, at) => sum + value * two[at], 0);
export const cosine = (one, two) => dot(one, two) / Math.sqrt(dot(one, one) * dot(two, two));

function draw(content, wallMs) {
  const vectors = content.data.map((entry) => entry.embedding);
  const first = vectors.map((vector, at) => h("p", { class: "vector" }, h("b", {}, at ? "Second " : "First "),
    h("code", {}, `[${vector.slice(0, SHOWN).map((value) => value.toFixed(4)).join(", ")}, …]`)));
  const closeness = vectors.length === 2 ? cosine(...vectors) : null;
  return [h("section", { class: "panel stack" }, closeness !== null && h("p", { class: "big", id: "cosine" }, closeness.toFixed(4), h("span", { class: "muted small" }, " cosine of the two")),
    facts([["Size of a vector", count(vectors[0].length)], ["Tokens", count(content.usage.prompt_tokens)], ["In this browser", milliseconds(wallMs)]]), first),
  content.timings && h("section", { class: "panel" }, h("h2", {}, "Where the time went"), waterfall(content.timings, wallMs))];
}

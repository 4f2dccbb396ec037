// A conversation before its first message: what the model is, what one may ask it, and what else there is.

import { facts, h, show } from "./dom.js";
import { factsOf, kindOf, readWeightBytes } from "./models.js";

const BUNDLED = "headrace-demo";
const QUESTIONS = {
  bundled: ["What is continuous batching?", "What does TTFT mean?", "How do I add a model?", "Which services does Headrace have?"],
  chat: ["Explain how a hash table works, with a short example.", "Write a Python function that finds duplicates in a list.", "Compare TCP and UDP in a table.", "Help me word a friendly reminder for an unpaid invoice."],
  base: ["Once upon a time, in a village by the sea,", "The three most important rules of good writing are", "def fibonacci(n):"],
};

/** Draws the welcome of a model. `ask(text)` sends an example. */
export function welcome(model, ask, signal) {
  const isBase = kindOf(model) === "base";
  const isBundled = model.id === BUNDLED || model.parent === BUNDLED;
  const told = h("div", {}, facts(factsOf(model, null)));
  readWeightBytes(model.id, signal).then((size) => { if (size && !signal.aborted) show(told, facts(factsOf(model, size))); });
  const questions = QUESTIONS[isBase ? "base" : isBundled ? "bundled" : "chat"];
  return h("section", { class: "welcome", "aria-label": "Begin" },
    h("h2", {}, isBase ? `Give ${model.id} a text to continue` : `Chat with ${model.id}`),
    h("p", { class: "muted" }, lead(isBase, isBundled)), told,
    h("ul", { class: "examples", "aria-label": "Examples" }, questions.map((text) => h("li", {}, h("button", { type: "button", class: "quiet", on: { click: () => ask(text) } }, text)))),
    h("p", { class: "muted small next" }, "Next: ", nextSteps(isBundled)));
}

function lead(isBase, isBundled) {
  if (isBase) return "This model has no chat template: it goes on with what you write, without questions and answers.";
  return isBundled ? "The bundled model is tiny. It knows Headrace and LLM serving, and nothing else." : "Conversations stay in this browser.";
}

function nextSteps(isBundled) {
  return [isBundled && ["serve a model of your own with ", h("code", {}, "headrace up MODEL"), ", "], h("a", { href: "#/playground" }, "call it from code"), " (Copy as curl, Copy as Python), or read ", h("a", { href: "docs" }, "the API"), "."];
}

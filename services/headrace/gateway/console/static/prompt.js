// The request for an answer: what was said so far, and the settings, as the API takes them.

import { kindOf } from "./models.js";

const BASE_TOKENS = 256;
const USAGE = { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };

/** The settings that are numbers: name, label, limits, and what an empty field means. */
export const NUMBERS = [
  ["temperature", "Temperature", { min: 0, max: 2, step: 0.1 }], ["top_p", "Top p", { min: 0.01, max: 1, step: 0.01 }],
  ["top_k", "Top k", { min: 1, max: 2147483647, step: 1 }], ["min_p", "Min p", { min: 0, max: 1, step: 0.01 }],
  ["max_tokens", "Max tokens", { min: 1, max: 2147483647, step: 1 }], ["seed", "Seed", { min: 0, max: Number.MAX_SAFE_INTEGER, step: 1 }],
  ["presence_penalty", "Presence penalty", { min: -2, max: 2, step: 0.1 }], ["frequency_penalty", "Frequency penalty", { min: -2, max: 2, step: 0.1 }],
];

/** Returns the numbers that are set. Throws Error with a sentence where one is out of its limits. */
export function numbersOf(settings) {
  const given = {};
  for (const [name, label, { min, max, step }] of NUMBERS) {
    const text = settings[name] ?? "";
    if (text === "") continue;
    const number = Number(text);
    if (!Number.isFinite(number) || number < min || number > max) throw new Error(`${label} must be a number from ${min} to ${max}.`);
    if (step === 1 && !Number.isInteger(number)) throw new Error(`${label} must be a whole number.`);
    given[name] = number;
  }
  return given;
}

/** What a message says, with the files attached to it. */
export function wholeText({ content, files = [] }) {
  return [...files.map(({ name, text }) => `File ${name}:\n${fenced(text)}`), content].filter(Boolean).join("\n\n");
}

function fenced(text) {
  const longest = Math.max(2, ...(text.match(/`{3,}/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

/** Path and body of the request for an answer to the last message of a path. `index`: which of several answers it is. */
export function requestOf(model, path, settings, index = 0) {
  const numbers = numbersOf(settings);
  if (numbers.seed !== undefined) numbers.seed += index;
  if (kindOf(model) === "base") return { path: "v1/completions", body: { model: model.id, prompt: continued(path), max_tokens: BASE_TOKENS, ...numbers, ...USAGE } };
  const said = path.filter((node) => wholeText(node) !== "").map((node) => ({ role: node.role, content: wholeText(node) }));
  const system = settings.system?.trim() ? [{ role: "system", content: settings.system }] : [];
  return { path: "v1/chat/completions", body: { model: model.id, messages: [...system, ...said], ...numbers, ...USAGE } };
}

/** All texts as one, for a model that goes on with it: answers follow at once, further texts on a line of their own. */
function continued(path) {
  let all = "";
  for (const node of path) all += (all && node.role === "user" && !all.endsWith("\n") ? "\n" : "") + wholeText(node);
  return all;
}

// Sends the example of one operation with the key of this tab, and shows the answer.

import { ApiError, headers } from "./api.js";
import { copyButton, failure, h, show } from "./dom.js";
import { milliseconds } from "./format.js";
import { firstTalker, kindOf, readModels } from "./models.js";

const PATIENCE_MS = 60_000;
const MOST_SHOWN = 20_000;
const EMBEDDING_PATHS = ["/v1/embeddings", "/v1/rerank", "/v1/score"];
const UNAUTHORIZED = 401;
let models = null;

/** Adds to a section of the page what tries its operation. The example becomes a field. */
export async function addTrial(section) {
  const { method, path } = section.dataset;
  const example = section.querySelector("pre.example");
  const title = `${method} ${path}`;
  const area = example && h("textarea", { class: "code", rows: 6, spellcheck: "false", "aria-label": `Body of ${title}`, value: await withModel(example.textContent, path) });
  if (area) example.replaceWith(area);
  const fields = [...section.querySelectorAll("[data-in]")].map((row) => {
    const input = h("input", { class: "trial-field", "aria-label": row.dataset.name, placeholder: row.dataset.in === "path" ? "needed" : "left out", autocomplete: "off", spellcheck: "false" });
    row.append(h("dd", {}, input));
    return { name: row.dataset.name, place: row.dataset.in, input };
  });
  const answer = h("div", { class: "trial-answer", "aria-live": "polite" });
  const send = h("button", { type: "button", class: "primary", on: { click: () => run(send, answer, () => target(method, path, fields, area)) } }, "Try it");
  const row = h("div", { class: "row trial" }, send, h("span", { class: "muted small" }, "Sends it to this platform with this tab's API key."));
  (area ?? section.querySelector(".op-body > .fields:has([data-in]), .op-body > p")).after(row, answer);
}

async function withModel(text, path) {
  models ??= readModels().catch(() => []);
  const known = await models;
  const chosen = EMBEDDING_PATHS.includes(path) ? known.find((model) => kindOf(model) === "embedding") : firstTalker(known);
  const body = JSON.parse(text);
  if (body.model && chosen) body.model = chosen.id;
  return JSON.stringify(body, null, 2);
}

function target(method, path, fields, area) {
  let address = path.slice(1);
  const query = new URLSearchParams();
  for (const { name, place, input } of fields) {
    const value = input.value.trim();
    if (place === "path" && !value) { input.focus(); throw new Error(`Fill in ${name} first.`); }
    if (place === "path") address = address.replace(`{${name}}`, encodeURIComponent(value));
    else if (value) query.set(name, value);
  }
  let body;
  if (area) {
    try {
      body = JSON.stringify(JSON.parse(area.value));
    } catch (error) {
      area.focus();
      throw new Error(`The body is not valid JSON: ${error.message}`);
    }
  }
  return { method, address: query.size ? `${address}?${query}` : address || "./", body };
}

async function run(button, place, prepare) {
  button.disabled = true;
  try {
    const { method, address, body } = prepare();
    show(place, h("p", { class: "muted small" }, "Sent. Waiting for the answer…"));
    const began = performance.now();
    const response = await fetch(address, { method, body, headers: headers({ accept: "application/json, */*", ...(body ? { "content-type": "application/json" } : {}) }), cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) }).catch((error) => {
      throw new ApiError(0, error.name === "TimeoutError" ? "The answer takes longer than a minute: ask for it with another client." : "The gateway cannot be reached. Is the platform running?", "unreachable");
    });
    const text = readable(await response.text());
    show(place, answerView(response, text, performance.now() - began));
  } catch (error) {
    show(place, failure(error));
  } finally {
    button.disabled = false;
    button.focus({ preventScroll: true });
  }
}

function answerView(response, text, spent) {
  const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}\n… and ${text.length - MOST_SHOWN} more characters` : text;
  return [h("div", { class: "row" }, h("span", { class: response.ok ? "tag" : "tag bad" }, `${response.status} ${response.statusText}`.trim()), h("span", { class: "muted small" }, milliseconds(spent)), h("span", { class: "spacer" }), copyButton("Copy", "Answer", () => text)),
    response.status === UNAUTHORIZED && h("p", { class: "small" }, "This platform requires an API key: ", h("a", { href: "/#/usage" }, "enter yours in the console"), ", and come back in the same tab."),
    h("pre", { class: "code answer", tabindex: "0", role: "region", "aria-label": "Answer" }, shown || "The answer is empty.")];
}

function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

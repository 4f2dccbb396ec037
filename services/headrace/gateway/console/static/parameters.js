// Parameters of a request: the fields, their checks, and the body that they make.

import { h, show } from "./dom.js";

export const CLASSES = ["default", "realtime", "interactive", "batch"];

const EXAMPLE_TOOLS = [{ type: "function", function: { name: "get_weather", description: "Weather of a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }];
const EXAMPLE_SCHEMA = { type: "object", properties: { answer: { type: "string", maxLength: 60 }, certain: { type: "boolean" } }, required: ["answer", "certain"], additionalProperties: false };

export const chosen = {
  temperature: "", top_p: "", max_tokens: "", seed: "", stop: "", class: "default", tools: "", tool_choice: "auto",
  format: "text", schema: JSON.stringify(EXAMPLE_SCHEMA, null, 2), logprobs: false, reasoning_effort: "",
};

const NUMBERS = [
  ["temperature", "Temperature", { min: 0, max: 2, step: 0.1 }, "0 – 2"], ["top_p", "Top p", { min: 0.01, max: 1, step: 0.01 }, "0 – 1"],
  ["max_tokens", "Max tokens", { min: 1, step: 1 }, "model's"], ["seed", "Seed", { step: 1 }, "random"],
];

const field = (id, label, control, ...more) => h("div", { class: "field" }, h("label", { for: id }, label), control, ...more);

function bound(tag, name, props, ...children) {
  const control = h(tag, { id: `p-${name}`, ...props, on: { input: () => { chosen[name] = control.value; changed(); } } }, ...children);
  control.value = chosen[name];
  return control;
}

let changed = () => {};

/** Draws the fields. `onChange` is called after each change. */
export function parametersForm(onChange) {
  changed = onChange;
  const numbers = NUMBERS.map(([name, label, limits, placeholder]) => field(`p-${name}`, label, bound("input", name, { type: "number", placeholder, inputmode: "decimal", ...limits })));
  const options = (values) => values.map(([value, text]) => h("option", { value }, text));
  const urgency = bound("select", "class", {}, options(CLASSES.map((name) => [name, name])));
  const reasoning = bound("select", "reasoning_effort", {}, options([["", "model's"], ["none", "none"], ["low", "low"], ["medium", "medium"], ["high", "high"]]));
  const logprobs = h("input", { type: "checkbox", id: "p-logprobs", checked: chosen.logprobs, on: { change: () => { chosen.logprobs = logprobs.checked; changed(); } } });
  return h("div", { class: "parameters" },
    h("div", { class: "pairs" }, numbers, field("p-class", "Class", urgency), field("p-reasoning_effort", "Reasoning", reasoning)),
    field("p-stop", "Stop texts, one per line", bound("textarea", "stop", { rows: 2, spellcheck: "false" })),
    h("label", { class: "check", for: "p-logprobs" }, logprobs, "Token probabilities"), toolsField(), formatField());
}

function toolsField() {
  const said = h("p", { class: "said small", id: "tools-said", role: "status" });
  const area = h("textarea", { id: "p-tools", rows: 6, class: "code", spellcheck: "false", placeholder: "[]", "aria-describedby": "tools-said",
    on: { input: () => { chosen.tools = area.value; check(); changed(); } } });
  area.value = chosen.tools;
  const choice = bound("select", "tool_choice", {}, ["auto", "required", "none"].map((value) => h("option", { value }, value)));
  const check = () => tell(area, said, () => { const tools = readTools(); return tools.length ? `${tools.length === 1 ? "1 tool" : `${tools.length} tools`}: ${tools.map((tool) => tool.function.name).join(", ")}` : "No tools."; });
  const example = h("button", { type: "button", class: "quiet small", on: { click: () => { area.value = chosen.tools = JSON.stringify(EXAMPLE_TOOLS, null, 2); check(); changed(); } } }, "Example");
  check();
  return h("details", { class: "fold", open: Boolean(chosen.tools) }, h("summary", {}, "Tools"),
    field("p-tools", "JSON array of functions", area, said), h("div", { class: "row" }, h("div", { class: "field" }, h("label", { for: "p-tool_choice" }, "Choice"), choice), example));
}

function formatField() {
  const said = h("p", { class: "said small", id: "schema-said", role: "status" });
  const area = h("textarea", { id: "p-schema", rows: 8, class: "code", spellcheck: "false", "aria-describedby": "schema-said",
    on: { input: () => { chosen.schema = area.value; check(); changed(); } } });
  area.value = chosen.schema;
  const check = () => tell(area, said, () => { readSchema(); return "Every answer will follow it."; });
  const editor = field("p-schema", "JSON schema", area, said);
  const kind = bound("select", "format", { }, [["text", "text"], ["json_object", "JSON object"], ["json_schema", "JSON schema"]].map(([value, text]) => h("option", { value }, text)));
  const arrange = () => { editor.hidden = chosen.format !== "json_schema"; };
  kind.addEventListener("input", arrange);
  arrange();
  check();
  return h("details", { class: "fold", open: chosen.format !== "text" }, h("summary", {}, "Output format"), field("p-format", "Format", kind), editor);
}

function tell(area, said, read) {
  try {
    show(said, read());
    area.removeAttribute("aria-invalid");
    said.classList.remove("bad");
  } catch (error) {
    show(said, error.message);
    area.setAttribute("aria-invalid", "true");
    said.classList.add("bad");
  }
}

function parseJson(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} is not valid JSON: ${place(error.message, text)}`);
  }
}

/** Says the line and column where a browser says the position only. */
function place(message, text) {
  const found = message.match(/position (\d+)/);
  if (!found || message.includes("line ")) return message;
  const before = text.slice(0, Number(found[1])).split("\n");
  return `${message} (line ${before.length}, column ${before.at(-1).length + 1})`;
}

export function readTools() {
  if (!chosen.tools.trim()) return [];
  const tools = parseJson(chosen.tools, "The list of tools");
  if (!Array.isArray(tools)) throw new Error("Tools must be a JSON array: [ … ].");
  tools.forEach((tool, at) => {
    if (tool?.type !== "function") throw new Error(`Tool ${at + 1} needs "type": "function".`);
    if (typeof tool.function?.name !== "string" || !tool.function.name) throw new Error(`Tool ${at + 1} needs function.name, a text.`);
    if (tool.function.parameters !== undefined && (typeof tool.function.parameters !== "object" || tool.function.parameters === null)) throw new Error(`Tool ${at + 1}: function.parameters must be a JSON schema.`);
  });
  return tools;
}

function readSchema() {
  const schema = parseJson(chosen.schema, "The schema");
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) throw new Error("A schema must be a JSON object: { … }.");
  return schema;
}

/** Returns the body of a chat. Throws Error where a field cannot be read. */
export function chatBody(model, messages) {
  const body = { model, messages, stream: true, stream_options: { include_usage: true }, timings: true };
  for (const [name, label] of NUMBERS) {
    if (chosen[name] === "") continue;
    const number = Number(chosen[name]);
    if (!Number.isFinite(number)) throw new Error(`${label} must be a number.`);
    body[name] = number;
  }
  const stop = chosen.stop.split("\n").filter(Boolean);
  if (stop.length) body.stop = stop;
  if (chosen.reasoning_effort) body.reasoning_effort = chosen.reasoning_effort;
  if (chosen.logprobs) Object.assign(body, { logprobs: true, top_logprobs: 5 });
  const tools = readTools();
  if (tools.length) Object.assign(body, { tools, tool_choice: chosen.tool_choice });
  if (chosen.format === "json_object") body.response_format = { type: "json_object" };
  if (chosen.format === "json_schema") body.response_format = { type: "json_schema", json_schema: { name: "answer", schema: readSchema() } };
  return body;
}

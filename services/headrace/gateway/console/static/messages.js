// Messages of a conversation: edited and deleted in place; answers with their tokens, reasoning and calls of tools.

import { h } from "./dom.js";
import { tokensUntilEnd, tokenView } from "./tokens.js";

/** Results that are being written, by call: drawing the conversation again must not lose them. */
const drafts = new WeakMap();
const ROLES = ["system", "user", "assistant"];

/** A message as the API takes it. */
export function forApi(message) {
  const { role, content, calls, callId } = message;
  if (role === "tool") return { role, tool_call_id: callId, content };
  return calls?.length ? { role, content: content || null, tool_calls: calls } : { role, content };
}

/** Draws one message. `actions`: change, remove, answerCall. */
export function messageView(message, number, actions) {
  const label = message.role === "tool" ? `Result of ${message.name}` : `Message ${number}`;
  const isWritten = message.role === "assistant" && !message.isEdited;
  return h("article", { class: `message ${message.role}`, "aria-label": `${message.role} message ${number}` },
    h("header", {}, roleOf(message, number, actions), h("span", { class: "spacer" }),
      isWritten && h("button", { type: "button", class: "quiet small", on: { click: () => actions.change({ isEdited: true, tokens: [] }) } }, "Edit"),
      h("button", { type: "button", class: "quiet small", "aria-label": `Delete message ${number}`, on: { click: actions.remove } }, "Delete")),
    message.reasoning && reasoningView(message.reasoning),
    isWritten ? written(message) : editor(message, label, actions),
    (message.calls ?? []).map((call) => callView(call, actions)));
}

function roleOf(message, number, actions) {
  if (message.role === "tool") return h("span", { class: "role" }, `tool ${message.name}`);
  if (message.role === "assistant" && !message.isEdited) return h("span", { class: "role" }, "assistant");
  const select = h("select", { class: "role", "aria-label": `Role of message ${number}`, on: { change: () => actions.change({ role: select.value, isEdited: true }) } },
    ROLES.map((role) => h("option", { value: role }, role)));
  select.value = message.role;
  return select;
}

function editor(message, label, actions) {
  const area = h("textarea", { class: "grow", rows: 1, "aria-label": label, on: { input: () => { message.content = area.value; actions.edited(); } } });
  area.value = message.content ?? "";
  return area;
}

function written(message) {
  if (message.tokens?.length) return tokenView(message.calls?.length ? message.tokens : tokensUntilEnd(message.tokens, message.content ?? ""));
  return message.content ? h("div", { class: "text" }, message.content) : null;
}

export function reasoningView(text, isOpen = false) {
  return h("details", { class: "fold reasoning", open: isOpen }, h("summary", {}, "Reasoning"), h("div", { class: "text muted" }, text));
}

export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function callView(call, actions) {
  const { name, arguments: given } = call.function;
  const head = [h("p", {}, "Calls ", h("b", {}, name)), h("pre", { class: "code", tabindex: "0", role: "region", "aria-label": `Arguments of ${name}` }, pretty(given))];
  if (actions.isAnswered(call)) return h("section", { class: "call", "aria-label": `Call of ${name}` }, head);
  const area = h("textarea", { rows: 2, class: "code", id: `result-${call.id}`, placeholder: '{"celsius": 21}', on: { input: () => drafts.set(call, area.value) } });
  area.value = drafts.get(call) ?? "";
  const answer = () => actions.answerCall(call, area.value);
  return h("section", { class: "call", "aria-label": `Call of ${name}` }, head,
    h("div", { class: "field" }, h("label", { for: `result-${call.id}` }, `Result of ${name}`), area),
    h("div", { class: "row" }, h("button", { type: "button", class: "primary", on: { click: answer } }, "Answer the call")));
}

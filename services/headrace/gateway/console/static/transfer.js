// Conversations as files: out of this browser and into it.

import { newId } from "./conversation.js";
import { wholeText } from "./prompt.js";

const FORMAT = "headrace-conversations";
const MOST_BYTES = 64 * 1024 * 1024;
const WRONG = "This file holds no conversations of this console.";
const isText = (value) => typeof value === "string";

export function asJson(records) {
  return JSON.stringify({ format: FORMAT, version: 1, conversations: records }, null, 1);
}

/** The messages that are shown, as a document. */
export function asMarkdown(conversation) {
  const parts = conversation.path().map((node) => `## ${node.role === "user" ? "You" : node.model || "Answer"}\n\n${wholeText(node)}`);
  return `# ${conversation.title || "Conversation"}\n\n${parts.join("\n\n")}\n`;
}

/** Gives a file to the browser to keep. */
export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A title as the name of a file. */
export const fileName = (title, ending) => `${title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60).toLowerCase() || "conversation"}.${ending}`;

/** Returns the conversations of a file, each with a new id, so that none takes the place of another. Throws Error with a sentence. */
export async function readTransfer(file) {
  if (file.size > MOST_BYTES) throw new Error("This file is too large to be imported.");
  let content;
  try {
    content = JSON.parse(await file.text());
  } catch {
    throw new Error(WRONG);
  }
  if (content?.format !== FORMAT || !Array.isArray(content.conversations)) throw new Error(WRONG);
  return content.conversations.map(checked);
}

function checked(record) {
  if (!isText(record?.title) || !Array.isArray(record.nodes)) throw new Error(WRONG);
  const nodes = record.nodes.map(checkedNode);
  const known = new Set(["root", ...nodes.map((node) => node.id)]);
  const order = new Map(nodes.map((node, at) => [node.id, at]));
  // A parent stands before its children: then no message is above itself.
  if (order.size !== nodes.length || !nodes.every((node, at) => known.has(node.parent) && (order.get(node.parent) ?? -1) < at)) throw new Error(WRONG);
  const chosen = Object.fromEntries(Object.entries(record.chosen ?? {}).filter(([parent, child]) => known.has(parent) && known.has(child)));
  const settings = Object.fromEntries(Object.entries(record.settings ?? {}).filter(([, value]) => isText(value)));
  return { id: newId(), title: record.title.slice(0, 200), isNamed: Boolean(record.isNamed), created: time(record.created), updated: time(record.updated), model: String(record.model ?? ""), settings, chosen, removed: {}, nodes };
}

const time = (value) => (Number.isFinite(value) ? value : Date.now());

function checkedNode({ id, parent, role, content, created, updated, model, group, reasoning, finish, ms, usage, files, calls, isStopped, isRaw, error }) {
  if (![id, parent, content].every(isText) || !["user", "assistant"].includes(role)) throw new Error(WRONG);
  const node = { id, parent, role, content, created: time(created), updated: time(updated) };
  for (const [name, value] of Object.entries({ model, group, reasoning, finish, error })) if (isText(value)) node[name] = value;
  if (Number.isFinite(ms)) node.ms = ms;
  if (isStopped === true) node.isStopped = true;
  if (isRaw === true) node.isRaw = true;
  if (Number.isFinite(usage?.prompt) && Number.isFinite(usage.completion)) node.usage = { prompt: usage.prompt, completion: usage.completion };
  if (Array.isArray(files) && files.every((file) => isText(file?.name) && isText(file.text))) node.files = files.map(({ name, text }) => ({ name, text }));
  if (Array.isArray(calls) && calls.every((call) => isText(call?.function?.name) && isText(call.function.arguments))) node.calls = calls;
  return node;
}

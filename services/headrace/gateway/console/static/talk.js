// One conversation and the answers that are being written in it. It goes on while another page is shown.

import { ask, resume } from "./answer.js";
import { archive } from "./archive.js";
import { Conversation, newId, ROOT } from "./conversation.js";
import { kindOf } from "./models.js";
import { requestOf } from "./prompt.js";

const SAVE_MS = 2000;
const STREAM = "headrace.stream.";
export const MOST_ANSWERS = 4;
const talks = new Map();

/** The talk of a kept conversation, or undefined. */
export async function openTalk(id) {
  if (talks.has(id)) return talks.get(id);
  const record = await archive.read(id);
  if (record && !talks.has(id)) {
    talks.set(id, new Talk(new Conversation(record)));
    talks.get(id).resume();
  }
  return talks.get(id);
}

export function newTalk(fields) {
  const talk = new Talk(new Conversation(fields));
  talks.set(talk.conversation.id, talk);
  return talk;
}

/** Forgets talks that are neither running nor shown: what they hold is in the archive. */
export function leaveTalk(talk) {
  if (!talk.isRunning && !talk.problem) talks.delete(talk.conversation.id);
}

/** Ends a talk whose conversation was deleted: nothing of it is kept from now on. */
export function endTalk(id) {
  const talk = talks.get(id);
  talks.delete(id);
  if (talk) talk.isGone = true;
  talk?.stop();
}

/** Events: `change` (messages came, went, or were chosen), `text` (an answer grew), `finished` (one ended). */
export class Talk extends EventTarget {
  constructor(conversation) {
    super();
    Object.assign(this, { conversation, running: new Map(), problem: "", saved: 0 });
  }

  get isRunning() {
    return this.running.size > 0;
  }

  isLive(node) {
    return this.running.has(node.id);
  }

  emit(kind, node) {
    this.dispatchEvent(new CustomEvent(kind, { detail: node }));
  }

  /** Says something and has it answered by models. Throws Error where a setting is wrong. */
  send(content, files, models) {
    this.check(models);
    const last = this.conversation.path().at(-1);
    this.answer(this.conversation.add(last?.id ?? ROOT, { role: "user", content, ...(files.length ? { files } : {}) }), models);
  }

  /** Says something else in place of a message: a branch beside it. */
  edit(node, content, models) {
    this.check(models);
    this.answer(this.conversation.add(node.parent, { role: "user", content, ...(node.files ? { files: node.files } : {}) }), models);
  }

  /** Has the message above an answer answered once more. */
  again(node, models) {
    this.check(models);
    this.answer(this.conversation.nodes.get(node.parent), models);
  }

  check(models) {
    for (const model of models) requestOf(model, [], this.conversation.settings);
  }

  answer(message, models) {
    const { conversation } = this;
    const group = models.length > 1 ? newId() : undefined;
    const nodes = models.map((model) => conversation.add(message.id, { role: "assistant", model: model.id, ...(group ? { group } : {}), ...(kindOf(model) === "base" ? { isRaw: true } : {}) }));
    conversation.choose(nodes[0]);
    nodes.forEach((node) => this.running.set(node.id, new AbortController()));
    this.emit("change");
    this.save();
    nodes.forEach((node, at) => this.write(node, models[at], models.slice(0, at).filter((model) => model === models[at]).length));
  }

  async write(node, model, index) {
    const { signal } = this.running.get(node.id);
    const { path, body } = requestOf(model, this.conversation.until(this.conversation.nodes.get(node.parent)), this.conversation.settings, index);
    for await (const answer of ask(body, "default", signal, path)) {
      if (answer.id) noteStream(node.id, answer.id);
      this.take(node, fieldsOf(answer));
    }
    this.finish(node);
  }

  /** Reads on in the answers that this tab was reading when its page was loaded again. */
  resume() {
    for (const node of this.conversation.nodes.values()) {
      const id = !node.finish && !node.isStopped && !node.error && notedStream(node.id);
      if (!id) continue;
      this.running.set(node.id, new AbortController());
      this.readOn(node, id);
    }
  }

  /** Events come from the first one on: until they have more than is kept, the kept text stays. */
  async readOn(node, id) {
    const { signal } = this.running.get(node.id);
    for await (const answer of resume(id, signal)) {
      const { ms, request, ...fields } = fieldsOf(answer);
      const isGone = answer.error && !answer.text;
      if (!isGone && (answer.finish || answer.text.length >= node.content.length)) this.take(node, { ...fields, ms: Date.now() - node.created });
      else if (answer.stopped) this.take(node, { isStopped: true });
    }
    this.finish(node);
  }

  take(node, fields) {
    this.conversation.change(node, fields);
    this.emit("text", node);
    if (performance.now() - this.saved > SAVE_MS) this.save();
  }

  finish(node) {
    noteStream(node.id, "");
    this.running.delete(node.id);
    this.emit("text", node);
    this.emit("finished", node);
    this.save();
  }

  stop() {
    for (const control of this.running.values()) control.abort();
  }

  choose(node) {
    this.conversation.choose(node);
    this.emit("change");
    this.save();
  }

  /** Takes out a message and all below it. Returns how to undo it. */
  remove(node) {
    const gone = this.conversation.remove(node);
    for (const one of gone) this.running.get(one.id)?.abort();
    this.emit("change");
    this.save();
    return () => {
      this.conversation.restore(gone);
      this.emit("change");
      this.save();
    };
  }

  /** Takes over what another tab has written. */
  follow(record) {
    this.conversation.merge(record);
    this.emit("change");
  }

  async save() {
    if (this.isGone) return;
    this.saved = performance.now();
    const problem = await archive.save(this.conversation);
    if (problem === this.problem) return;
    this.problem = problem;
    this.emit("problem");
  }
}

/** Remembers, for this tab alone, which stream an answer is read from: another tab must not take it away. "": none any more. */
function noteStream(nodeId, id) {
  if (notedStream(nodeId) === id) return;
  if (id) sessionStorage.setItem(STREAM + nodeId, id);
  else sessionStorage.removeItem(STREAM + nodeId);
}

const notedStream = (nodeId) => sessionStorage.getItem(STREAM + nodeId) ?? "";

/** What of an answer is kept. */
function fieldsOf({ text, reasoning, calls, usage, wallMs, started, finish, error, stopped, requestId }) {
  return {
    content: text, ...(reasoning ? { reasoning } : {}), ...(calls.length ? { calls: calls.filter(Boolean) } : {}),
    ...(usage ? { usage: { prompt: usage.prompt_tokens, completion: usage.completion_tokens } } : {}),
    ...(requestId ? { request: requestId } : {}), ms: wallMs ?? performance.now() - started, finish, isStopped: stopped, error: error?.message ?? "",
  };
}

addEventListener("pagehide", () => { for (const talk of talks.values()) if (talk.isRunning) talk.save(); });
archive.addEventListener("change", ({ detail: { isOwn, saved, record } }) => { if (!isOwn && record) talks.get(saved)?.follow(record); });

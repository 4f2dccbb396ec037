// The playground: a conversation with one model, and everything that is known about its last request.

import { readKey } from "./api.js";
import { ask, findRecord } from "./answer.js";
import { cachedTokens } from "./cached.js";
import { copy, facts, failure, h, show } from "./dom.js";
import { embeddingForm } from "./embedding.js";
import { count, milliseconds, rate } from "./format.js";
import { menu } from "./menu.js";
import { forApi, messageView, pretty, reasoningView } from "./messages.js";
import { kindOf, readModels, titleOf } from "./models.js";
import { chatBody, chosen, parametersForm } from "./parameters.js";
import { asCurl, asPython } from "./snippets.js";
import { waterfall } from "./waterfall.js";

const state = { model: "", models: [], messages: [], last: null, tab: "waterfall", draft: "" };
const TABS = { waterfall: "Waterfall", events: "Events", request: "Request" };

export async function playgroundPage(main, signal) {
  try {
    state.models = await readModels(signal);
  } catch (error) {
    if (!signal.aborted) show(main, h("h1", {}, "Playground"), failure(error));
    return;
  }
  if (signal.aborted) return;
  if (!state.models.some((model) => model.id === state.model)) state.model = (state.models.find((model) => model.can_chat) ?? state.models[0])?.id ?? "";
  new Playground(main, signal).draw();
}

class Playground {
  constructor(main, signal) {
    this.main = main;
    this.running = null;
    this.conversation = h("div", { class: "conversation", id: "conversation" });
    this.live = h("div", { "aria-live": "off" });
    this.report = h("div", { class: "stack" });
    this.actions = h("div", { class: "row" });
    this.said = h("div", {});
    this.signal = signal;
    signal.addEventListener("abort", () => this.running?.abort());
    addEventListener("keydown", (event) => { if (event.key === "Escape" && this.running) this.stop(); }, { signal });
  }

  get kind() {
    return kindOf(state.models.find((model) => model.id === state.model));
  }

  draw() {
    const picker = h("select", { id: "model", on: { change: () => { state.model = picker.value; this.draw(); } } },
      state.models.map((model) => h("option", { value: model.id }, titleOf(model))));
    picker.value = state.model;
    const head = h("div", { class: "page-head" }, h("h1", {}, "Playground"), h("div", { class: "field" }, h("label", { for: "model" }, "Model"), picker));
    if (!state.models.length) show(this.main, head, h("p", { class: "muted empty" }, "No model is ready yet. Reload in a moment."));
    else if (this.kind === "embedding") show(this.main, head, embeddingForm(state.model));
    else this.drawChat(head);
  }

  drawChat(head) {
    const rail = h("aside", { class: "panel rail", "aria-label": "Parameters" }, h("details", { class: "rail-fold", open: innerWidth >= 900 }, h("summary", {}, "Parameters"), parametersForm(() => this.drawTab())));
    const hint = this.kind === "base" && h("p", { class: "muted" }, "This model has no chat template, so it answers no messages. The ", h("a", { href: "#/chat" }, "chat"), " lets it continue a text.");
    show(this.main, head, hint, h("div", { class: "desk" }, h("div", { class: "stack" }, h("section", { class: "panel chat", "aria-label": "Conversation" }, this.conversation, this.live, this.said, this.composer()), this.report), rail));
    this.drawMessages();
    this.drawReport();
  }

  composer() {
    const area = h("textarea", { id: "compose", rows: 3, "data-shortcut": "compose", placeholder: "Ask something", "aria-label": "Your message",
      on: { input: () => { state.draft = area.value; this.drawTab(); }, keydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.send(); } } } });
    area.value = state.draft;
    this.area = area;
    this.drawActions();
    return h("div", { class: "composer" }, area, this.actions);
  }

  drawActions() {
    const quiet = (text, click, more = {}) => h("button", { type: "button", class: "quiet", ...more, on: { click } }, text);
    const main = this.running ? h("button", { type: "button", class: "primary", id: "stop", "data-focus": "main", on: { click: () => this.stop() } }, "Stop")
      : h("button", { type: "button", class: "primary", id: "send", "data-focus": "main", title: "Ctrl Enter", on: { click: () => this.send() } }, "Send");
    show(this.actions, main, !this.running && [quiet("Add system", () => this.add("system"), { title: "Adds a system message at the top" }), quiet("Add assistant", () => this.add("assistant")),
      state.messages.length > 0 && quiet("Run again", () => this.again()), state.messages.length > 0 && quiet("Clear", () => { state.messages = []; state.last = null; this.drawMessages(); this.drawReport(); })],
    h("span", { class: "spacer" }), menu("Copy the request", [["Copy as curl", () => copy(this.snippet((body) => asCurl("v1/chat/completions", body, chosen.class, readKey())), "Command")],
      ["Copy as Python", () => copy(this.snippet((body) => asPython(body, chosen.class, readKey())), "Code")]]));
  }

  drawMessages() {
    const { messages } = state;
    const answered = new Set(messages.filter((message) => message.role === "tool").map((message) => message.callId));
    show(this.conversation, messages.length === 0 && h("p", { class: "muted empty" }, "The conversation is empty. Write below", h("span", { class: "keyboard" }, "; Ctrl Enter sends"), "."), messages.map((message, at) => messageView(message, at + 1, {
      change: (fields) => { Object.assign(message, fields); this.drawMessages(); this.drawTab(); },
      edited: () => this.drawTab(),
      remove: () => { messages.splice(at, 1); this.drawMessages(); this.drawTab(); },
      isAnswered: (call) => answered.has(call.id),
      answerCall: (call, text) => this.answerCall(at, call, text),
    })));
    this.drawActions();
  }

  add(role) {
    const message = { role, content: role === "system" ? "" : this.area.value, isEdited: true };
    if (role === "system") state.messages.unshift(message);
    else { state.messages.push(message); this.clearDraft(); }
    this.drawMessages();
    const areas = this.conversation.querySelectorAll("textarea");
    (role === "system" ? areas[0] : areas[areas.length - 1])?.focus();
  }

  clearDraft() {
    state.draft = this.area.value = "";
  }

  /** The messages that would be sent now, the draft included. */
  pending() {
    const draft = this.area?.value.trim() ? [{ role: "user", content: this.area.value }] : [];
    return [...state.messages, ...draft].map(forApi);
  }

  snippet(make) {
    try {
      const messages = this.pending();
      return make(chatBody(state.model, messages.length ? messages : [{ role: "user", content: "Hello" }]));
    } catch (error) {
      return error.message;
    }
  }

  send() {
    if (this.running) return;
    if (this.area.value.trim()) state.messages.push({ role: "user", content: this.area.value });
    if (!state.messages.length) { this.area.focus(); return; }
    this.clearDraft();
    this.run();
  }

  again() {
    while (state.messages.at(-1)?.role === "assistant") state.messages.pop();
    if (state.messages.length) this.run();
    else this.drawMessages();
  }

  answerCall(at, call, text) {
    let end = at + 1;
    while (state.messages[end]?.role === "tool") end += 1;
    state.messages.splice(end, 0, { role: "tool", name: call.function.name, callId: call.id, content: text });
    const calls = state.messages[at].calls;
    const done = new Set(state.messages.filter((message) => message.role === "tool").map((message) => message.callId));
    if (calls.every((one) => done.has(one.id))) this.run();
    else this.drawMessages();
  }

  stop() {
    this.running?.abort();
  }

  async run() {
    show(this.said);
    let body;
    try {
      body = chatBody(state.model, state.messages.map(forApi));
    } catch (error) {
      show(this.said, failure(error));
      this.drawMessages();
      return;
    }
    this.running = new AbortController();
    this.drawMessages();
    let answer = null;
    let frame = 0;
    for await (const now of ask(body, chosen.class, this.running.signal)) {
      answer = now;
      frame ||= requestAnimationFrame(() => { frame = 0; if (this.running) this.drawLive(answer); });
    }
    cancelAnimationFrame(frame);
    await this.finish(answer);
  }

  drawLive(answer) {
    show(this.live, h("article", { class: "message assistant live", "aria-label": "Answer so far" }, h("header", {}, h("span", { class: "role" }, "assistant"), h("span", { class: "muted small" }, `${milliseconds(answer.elapsed())}`)),
      answer.reasoning && reasoningView(answer.reasoning, !answer.text), h("div", { class: "text" }, answer.text, h("span", { class: "caret", "aria-hidden": "true" })),
      answer.calls.filter(Boolean).map((call) => h("section", { class: "call" }, h("p", {}, "Calls ", h("b", {}, call.function.name)), h("pre", { class: "code" }, pretty(call.function.arguments))))));
  }

  async finish(answer) {
    this.running = null;
    show(this.live);
    const calls = answer.calls.filter(Boolean);
    if (answer.text || calls.length || answer.reasoning) state.messages.push({ role: "assistant", content: answer.text, reasoning: answer.reasoning, calls: answer.stopped ? [] : calls, tokens: answer.tokens });
    if (answer.error) show(this.said, failure(answer.error));
    state.last = answer;
    if (this.signal.aborted) return;
    this.drawMessages();
    this.drawReport();
    if (!answer.error) this.area.focus({ preventScroll: true });
    answer.record = await findRecord(answer.requestId, this.signal);
    if (!this.signal.aborted && state.last === answer) this.drawReport();
  }

  drawReport() {
    const { last } = state;
    if (!last) { show(this.report); this.panel = null; return; }
    this.panel = h("div", { role: "tabpanel", id: "tab-panel", "aria-labelledby": `tab-${state.tab}`, tabindex: "0" });
    show(this.report, h("section", { class: "panel", "aria-label": "Last request" }, numbers(last), this.tabs(), this.panel));
    this.drawTab();
  }

  tabs() {
    const names = Object.keys(TABS);
    const choose = (name) => { state.tab = name; this.drawReport(); document.getElementById(`tab-${name}`).focus(); };
    const move = (event, at) => {
      const to = { ArrowRight: names[at + 1] ?? names[0], ArrowLeft: names[at - 1] ?? names.at(-1) }[event.key];
      if (to) { event.preventDefault(); choose(to); }
    };
    return h("div", { class: "tabs", role: "tablist", "aria-label": "About the last request" }, names.map((name, at) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "tab-panel",
      "aria-selected": String(name === state.tab), tabindex: name === state.tab ? "0" : "-1", on: { click: () => choose(name), keydown: (event) => move(event, at) } }, TABS[name])));
  }

  drawTab() {
    if (!this.panel) return;
    const { last } = state;
    if (state.tab === "waterfall") show(this.panel, fallOf(last));
    else if (state.tab === "events") show(this.panel, h("ol", { class: "events code" }, last.raw.map(([at, data]) => h("li", {}, h("span", { class: "muted" }, milliseconds(at)), h("span", {}, data)))));
    else show(this.panel, h("pre", { class: "code" }, this.snippet((body) => JSON.stringify(body, null, 2))));
  }
}

function fallOf(answer) {
  const record = answer.record ?? answer.timings;
  if (!record) return h("p", { class: "muted empty" }, answer.stopped ? "Asking the gateway…" : "No timing is available for this request.");
  return [waterfall(record, answer.wallMs), answer.record && h("p", { class: "small" }, h("a", { href: `#/requests/${encodeURIComponent(answer.record.request_id || answer.record.id)}` }, "All about this request"))];
}

/** What was measured here, and what the gateway says. */
function numbers(answer) {
  const told = answer.record ?? answer.timings;
  const { usage } = answer;
  const tokens = usage ? `${count(usage.prompt_tokens)} in, ${count(usage.completion_tokens)} out` : told ? `${count(told.prompt_tokens)} in, ${count(told.output_tokens)} out` : null;
  return facts([
    ["TTFT (browser)", milliseconds(answer.firstMs), "Measured in this browser"], ["TTFT (gateway)", milliseconds(told?.ttft_ms), "Measured by the gateway"],
    ["Tokens/s (browser)", rate(answer.seenRate), "After the first token, measured in this browser"], ["Tokens/s (gateway)", rate(told?.tokens_per_second), "After the first token, measured by the gateway"],
    ["Tokens", tokens], ["Cached", told ? cachedTokens(told) : null], ["Total", milliseconds(answer.wallMs)],
    ["Finish reason", answer.stopped ? "stopped" : answer.error ? "failed" : answer.finish], ["Worker", told?.worker],
  ]);
}

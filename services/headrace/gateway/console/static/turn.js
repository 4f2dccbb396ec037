// One message of a conversation, with what can be done with it.

import { copy, failure, h, show } from "./dom.js";
import { bytes, count } from "./format.js";
import { icon, iconButton } from "./icons.js";
import { MarkdownView } from "./markdown.js";
import { pretty } from "./messages.js";

const SHORTEST_MS = 200;
const PAUSE = 3;

/** What is told of an answer: tokens over the whole time, and how it ended where that is not as usual. */
export function remarks({ usage, ms, finish, isStopped, error }, isLive) {
  const tokens = usage?.completion;
  const speed = tokens && ms >= SHORTEST_MS && !isLive ? [`${count(tokens)} tokens`, `${(tokens / (ms / 1000)).toFixed(1)} tokens/s`] : [];
  const ending = isLive || error ? "" : isStopped ? "stopped" : !finish ? "not finished" : finish === "length" ? "cut at the token limit" : finish === "stop" ? "" : finish.replaceAll("_", " ");
  return [...speed, ending].filter(Boolean).join(" · ");
}

/** The arrows between versions, where there are several. */
function versionArrows(node, actions) {
  const versions = actions.talk.conversation.versions(node);
  if (versions.length < 2) return null;
  const at = versions.findIndex((group) => group.includes(node));
  const to = (name, label, place) => iconButton(name, label, () => actions.talk.choose(versions[place][0]), { disabled: !versions[place], "data-focus": `${name}-${node.parent}` });
  return h("span", { class: "versions" }, to("back", "Previous version", at - 1), h("span", { class: "small" }, `${at + 1} / ${versions.length}`), to("forward", "Next version", at + 1));
}

class Turn {
  constructor(node, actions) {
    Object.assign(this, { node, actions, drawn: "" });
    this.bar = h("div", { class: "turn-bar" });
  }

  /** Draws the bar again if what it shows has changed: a button that has the focus keeps it. */
  drawBar() {
    const { conversation } = this.actions.talk;
    const state = JSON.stringify([this.actions.talk.isRunning, remarks(this.node, this.isLive), conversation.versions(this.node).map((group) => group[0].id), conversation.next(this.node.parent)?.id]);
    if (state === this.drawn) return;
    this.drawn = state;
    show(this.bar, this.tools());
  }

  get isLive() {
    return this.actions.talk.isLive(this.node);
  }

  tool(name, label, click, isIdle = true) {
    return iconButton(name, label, click, { "data-focus": `${name}-${this.node.id}`, disabled: isIdle && this.actions.talk.isRunning });
  }

  remover() {
    return this.tool("remove", "Delete from here on", () => this.actions.remove(this.node));
  }
}

export class UserTurn extends Turn {
  constructor(node, actions) {
    super(node, actions);
    this.body = h("div", { class: "bubble" });
    this.element = h("article", { class: "turn user", tabindex: "-1" }, h("h2", { class: "offscreen" }, "You"), this.body, this.bar);
    this.drawText();
  }

  refresh() {
    this.drawBar();
  }

  drawText() {
    const files = (this.node.files ?? []).map((file) => h("details", { class: "file" }, h("summary", {}, icon("attach"), file.name, h("span", { class: "muted" }, ` ${bytes(file.text.length)}`)), h("pre", { class: "code", tabindex: "0", role: "group", "aria-label": file.name }, file.text)));
    show(this.body, files, this.node.content && h("div", { class: "text" }, this.node.content));
  }

  tools() {
    return [versionArrows(this.node, this.actions), this.tool("copy", "Copy message", () => copy(this.node.content, "Message"), false), this.tool("edit", "Edit message", () => this.edit()), this.remover()];
  }

  edit() {
    const area = h("textarea", { rows: 2, "aria-label": "Edit your message", value: this.node.content });
    const done = () => { this.element.classList.remove("editing"); this.drawText(); this.bar.hidden = false; };
    const cancel = () => { done(); this.bar.querySelector("[aria-label='Edit message']")?.focus(); };
    const send = () => { if (area.value.trim() && this.actions.edit(this.node, area.value)) done(); };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); cancel(); }
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) { event.preventDefault(); send(); }
    });
    this.element.classList.add("editing");
    this.bar.hidden = true;
    show(this.body, area, h("div", { class: "row end" }, h("button", { type: "button", class: "quiet", on: { click: cancel } }, "Cancel"), h("button", { type: "button", class: "primary", on: { click: send } }, "Send")));
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}

export class AnswerTurn extends Turn {
  constructor(node, actions) {
    super(node, actions);
    Object.assign(this, { cost: 0, waiting: null, shown: "" });
    this.before = h("div", { class: "before" });
    this.text = h("div", { class: node.isRaw ? "text raw" : "md" });
    this.after = h("div", { class: "after" });
    this.element = h("article", { class: "turn answer", tabindex: "-1" }, h("h2", { class: "small" }, node.model || "Answer"), this.before, this.text, this.after, this.bar);
    this.draw();
  }

  /** Draws soon: often enough to be read along, and seldom enough that long answers leave the processor idle. */
  refresh() {
    if (!this.isLive) { clearTimeout(this.waiting); this.waiting = null; this.draw(); return; }
    this.waiting ??= setTimeout(() => requestAnimationFrame(() => { this.waiting = null; if (this.isLive) this.draw(); }), PAUSE * this.cost);
  }

  draw() {
    const began = performance.now();
    const { content, error } = this.node;
    const state = `${this.isLive} ${content.length} ${error}`;
    if (state !== this.shown) this.drawText(content);
    this.shown = state;
    this.element.classList.toggle("live", this.isLive);
    this.drawReasoning();
    this.drawAfter();
    this.drawBar();
    this.cost = performance.now() - began;
  }

  drawText(content) {
    if (this.node.isRaw) this.text.textContent = content;
    else this.drawMarkdown(content);
    this.text.classList.toggle("waiting", this.isLive && !content);
  }

  /** Another tab may have changed an answer that had ended here: then it is drawn from its start. */
  drawMarkdown(content) {
    if (this.isWhole || !this.markdown) {
      this.text.replaceChildren();
      this.markdown = new MarkdownView(this.text);
    }
    this.isWhole = !this.isLive;
    this.markdown.update(content, this.isWhole);
  }

  drawReasoning() {
    const { reasoning } = this.node;
    if (!reasoning) return;
    this.reasoning ??= h("details", { class: "fold reasoning" }, h("summary", {}), h("div", { class: "text muted" }));
    const [summary, text] = this.reasoning.children;
    summary.textContent = this.isLive && !this.node.content ? "Thinking…" : "Reasoning";
    if (text.textContent.length !== reasoning.length) text.textContent = reasoning;
    if (!this.reasoning.parentNode) this.before.append(this.reasoning);
  }

  /** Draws calls and failure, if they are others than before: readers by ear hear a failure once. */
  drawAfter() {
    const { calls = [], error } = this.node;
    const state = JSON.stringify([calls, error]);
    if (state === this.told) return;
    this.told = state;
    const open = this.after.querySelectorAll("details[open]").length > 0;
    show(this.after, calls.map(({ function: { name, arguments: given } }) => h("details", { class: "fold", open }, h("summary", {}, "Calls ", h("b", {}, name)), h("pre", { class: "code", tabindex: "0", role: "group", "aria-label": `Arguments of ${name}` }, pretty(given)))),
      error && failure({ message: error }));
  }

  tools() {
    if (this.isLive) return h("span", { class: "muted small" }, "Writing…");
    const { talk } = this.actions;
    const isOne = talk.conversation.under(this.node.parent).filter((one) => one.group && one.group === this.node.group).length > 1;
    const isChosen = talk.conversation.next(this.node.parent) === this.node;
    const told = remarks(this.node, this.isLive);
    return [versionArrows(this.node, this.actions), this.tool("copy", "Copy answer", () => copy(this.node.content, "Answer"), false),
      this.tool("again", "Regenerate", () => this.actions.again(this.node)), this.remover(), told && h("span", { class: "muted small remarks" }, told),
      this.node.request && h("a", { class: "small inspect", href: `#/requests/${encodeURIComponent(this.node.request)}`, title: "Where the time of this answer went", "data-focus": `inspect-${this.node.id}` }, "Inspect"),
      isOne && h("button", { type: "button", class: "quiet small", "aria-pressed": String(isChosen), "data-focus": `use-${this.node.id}`, on: { click: () => talk.choose(this.node) } }, isChosen ? "Chosen" : "Continue with this")];
  }
}

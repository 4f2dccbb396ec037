// The chat: a conversation with a model, the box to write in, and those held before.

import { archive } from "./archive.js";
import { Composer } from "./composer.js";
import { failure, h, show } from "./dom.js";
import { Follower } from "./follower.js";
import { count, share } from "./format.js";
import { icon, iconButton } from "./icons.js";
import { menu } from "./menu.js";
import { firstTalker, kindOf, readModels, talkers, titleOf } from "./models.js";
import { keepDraft, keepLast, lastSettings, readDraft } from "./presets.js";
import { SettingsDrawer } from "./settings.js";
import { Shelf } from "./shelf.js";
import { leaveTalk, MOST_ANSWERS, newTalk, openTalk } from "./talk.js";
import { Thread } from "./thread.js";
import { asJson, asMarkdown, download, fileName } from "./transfer.js";
import { welcome } from "./welcome.js";

const WIDE = "(min-width: 900px)";
const UNDO_MS = 12_000;
const SPOKEN = 1500;
const state = { models: [], model: "", undo: null };

export async function chatPage(main, signal, id) {
  try {
    await Promise.all([archive.open(), readModels(signal).then((models) => { state.models = models; })]);
  } catch (error) {
    if (!signal.aborted) show(main, h("h1", {}, "Chat"), failure(error));
    return;
  }
  const held = id && (await openTalk(id));
  if (signal.aborted) return;
  if (!talkers(state.models).length) { show(main, h("h1", {}, "Chat"), h("p", { class: "muted empty" }, nothingTalks())); return; }
  const talk = held || newTalk({ settings: lastSettings() });
  if (!held) history.replaceState(null, "", "#/chat");
  const page = new ChatPage(main, signal, talk);
  page.draw();
  if (id && !held) page.fail(new Error("This conversation is not in this browser: it was deleted, or held elsewhere."));
}

const nothingTalks = () => (state.models.length ? "None of the models here can chat: they make embeddings. The playground has a form for them." : "No model is ready yet. Reload in a moment.");

class ChatPage {
  constructor(main, signal, talk) {
    Object.assign(this, { main, signal, talk });
    if (!this.find(talk.conversation.model)) talk.conversation.model = this.find(state.model)?.id ?? firstTalker(state.models).id;
    this.makeParts();
    this.listen();
  }

  makeParts() {
    const { talk, signal } = this;
    const sent = (send) => this.attempt(() => send(this.targets()));
    this.composer = new Composer({
      send: (text, files) => sent((models) => talk.send(text, files, models)), stop: () => talk.stop(), isRunning: () => talk.isRunning,
      fail: (error) => this.fail(error), draft: (text) => keepDraft(this.draftName, text), leave: () => this.scroller.focus({ preventScroll: true }),
    }, signal);
    this.thread = new Thread({
      talk, again: (node) => sent((models) => talk.again(node, models)), edit: (node, text) => sent((models) => talk.edit(node, text, models)), remove: (node) => this.remove(node),
    });
    this.shelf = new Shelf({
      current: () => talk.conversation.id, undo: (text, undo) => this.offerUndo(text, undo, true), fail: (error) => this.fail(error),
      gone: (id) => { if (id === talk.conversation.id) location.hash = "#/chat"; }, went: () => this.drawer.close(),
    }, signal);
    this.settings = new SettingsDrawer({
      settings: () => talk.conversation.settings, changed: () => this.settingsChanged(),
      others: () => talkers(state.models).map((model) => model.id).filter((name) => name !== talk.conversation.model),
    });
  }

  listen() {
    const { talk, signal } = this;
    talk.addEventListener("change", () => this.refresh(), { signal });
    talk.addEventListener("text", ({ detail }) => this.thread.refresh(detail), { signal });
    talk.addEventListener("finished", ({ detail }) => this.finished(detail), { signal });
    talk.addEventListener("problem", () => this.drawProblem(), { signal });
    addEventListener("keydown", (event) => { if (event.key === "Escape" && talk.isRunning && !document.querySelector("dialog[open]")) talk.stop(); }, { signal });
    signal.addEventListener("abort", () => { clearTimeout(this.undoTimer); if (!state.undo?.isLasting) state.undo = null; leaveTalk(talk); });
  }

  /** Conversations that have not begun share a draft. */
  get draftName() {
    return this.talk.conversation.nodes.size ? this.talk.conversation.id : "new";
  }

  find(name) {
    return talkers(state.models).find((model) => model.id === name);
  }

  isBase(name) {
    const model = this.find(name);
    return Boolean(model) && kindOf(model) === "base";
  }

  /** The models that answer the next message: each as often as answers are wanted. */
  targets() {
    const { model, settings } = this.talk.conversation;
    const models = [this.find(model), settings.compare !== model && this.find(settings.compare)].filter(Boolean);
    const answers = Math.min(MOST_ANSWERS / models.length, Math.max(1, Number(settings.count) || 1));
    return models.flatMap((one) => Array.from({ length: Math.floor(answers) }, () => one));
  }

  draw() {
    const { signal } = this;
    this.scroller = h("div", { class: "scroller", id: "conversation", role: "region", "aria-label": "Conversation", tabindex: "0" });
    this.content = h("div", { class: "content" });
    this.scroller.append(this.content);
    this.jump = h("button", { type: "button", class: "jump", id: "jump", hidden: true }, icon("down"), "Jump to latest");
    this.undo = h("div", { class: "undo", role: "status" });
    this.said = h("div", {});
    this.problem = h("div", {});
    this.spoken = h("p", { class: "offscreen", role: "status", "aria-live": "polite", id: "spoken" });
    this.aside = h("aside", { class: "side", "aria-label": "Conversations" });
    this.drawer = h("dialog", { class: "drawer", "aria-label": "Conversations", on: { click: (event) => { if (event.target === this.drawer) this.drawer.close(); } } });
    show(this.main, this.aside, h("section", { class: "talk", "aria-label": "Chat" }, this.head(), this.scroller, h("div", { class: "foot" }, this.jump, this.undo, this.problem, this.said, this.composer.element, this.spoken)), this.drawer, this.settings.element);
    this.follower = new Follower(this.scroller, this.content, this.jump, signal);
    const wide = matchMedia(WIDE);
    wide.addEventListener("change", () => this.placeShelf(wide.matches), { signal });
    this.placeShelf(wide.matches);
    this.composer.fill(readDraft(this.draftName));
    this.refresh();
    this.drawProblem();
    this.drawUndo();
    this.follower.toEnd();
    if (matchMedia("(hover: hover)").matches && !document.querySelector("dialog[open]")) this.composer.focus();
  }

  placeShelf(isWide) {
    this.drawer.close();
    show(isWide ? this.aside : this.drawer, this.shelf.element);
    this.shelf.draw();
  }

  head() {
    const picker = h("select", { id: "model", "aria-label": "Model", on: { change: () => this.useModel(picker.value) } }, talkers(state.models).map((model) => h("option", { value: model.id }, titleOf(model))));
    picker.value = this.talk.conversation.model;
    this.title = h("h1", {});
    this.against = h("span", { class: "muted small against" });
    return h("header", { class: "talk-head" }, iconButton("list", "Conversations", () => this.drawer.showModal(), { id: "open-shelf" }), this.title, h("span", { class: "spacer" }), picker, this.against,
      iconButton("settings", "Settings", () => this.settings.open(), { id: "open-settings" }), menu("More", [["Export as Markdown", () => this.export("md")], ["Export as JSON", () => this.export("json")]]));
  }

  useModel(name) {
    this.talk.conversation.model = state.model = name;
    if (this.talk.conversation.nodes.size) this.talk.save();
    this.content.replaceChildren();
    this.refresh();
  }

  settingsChanged() {
    keepLast(this.talk.conversation.settings);
    if (this.talk.conversation.nodes.size) this.talk.save();
    this.drawHead();
  }

  drawHead() {
    const { title, settings, model } = this.talk.conversation;
    this.title.textContent = title || "New chat";
    document.title = `${title || "Chat"} · Headrace`;
    const isCompared = this.find(settings.compare) && settings.compare !== model;
    this.against.textContent = isCompared ? `and ${settings.compare}` : "";
  }

  refresh() {
    const { conversation } = this.talk;
    const isEmpty = conversation.nodes.size === 0;
    this.drawHead();
    if (!isEmpty) history.replaceState(null, "", `#/chat/${conversation.id}`);
    this.main.classList.toggle("is-empty", isEmpty);
    if (isEmpty && !this.content.querySelector(".welcome")) show(this.content, welcome(this.find(conversation.model), (text) => this.attempt(() => this.talk.send(text, [], this.targets())), this.signal));
    if (!isEmpty && this.thread.element.parentNode !== this.content) show(this.content, this.thread.element);
    this.thread.draw();
    this.composer.area.placeholder = this.isBase(conversation.model) ? "Write a text to continue" : "Ask something";
    this.composer.drawMain();
    this.drawContext();
    this.shelf.draw();
  }

  /** Does something that sends. Returns whether it was sent; otherwise the page says why not. */
  attempt(send) {
    try {
      send();
    } catch (error) {
      this.fail(error);
      return false;
    }
    this.fail(null);
    this.forgetUndo();
    this.follower.toEnd();
    if (!this.main.contains(document.activeElement) || document.activeElement === this.main) this.thread.element.lastElementChild?.focus({ preventScroll: true });
    return true;
  }

  finished(node) {
    this.thread.refreshAll();
    this.composer.drawMain();
    this.drawContext();
    if (!this.talk.isRunning) this.spoken.textContent = node.error ? "" : `${node.isStopped ? "Answer stopped" : "Answer"}: ${node.content.slice(0, SPOKEN)}`;
  }

  drawContext() {
    const { conversation } = this.talk;
    const last = conversation.path().findLast((node) => node.usage);
    const length = this.find(last?.model)?.max_model_length;
    const used = last ? last.usage.prompt + last.usage.completion : 0;
    show(this.composer.context, length && used ? [h("span", { class: "meter", "aria-hidden": "true" }, h("span", { vars: { "--share": Math.min(1, used / length) } })), h("span", { title: "Tokens of the last message and its answer, of those that the model can read" }, `${count(used)} of ${count(length)} tokens (${share(used / length)})`)] : []);
  }

  remove(node) {
    const undo = this.talk.remove(node);
    this.offerUndo("Deleted from here on.", undo, false);
    this.undo.querySelector("button").focus({ preventScroll: true });
  }

  /** Offers the way back for a while, but no longer than until the next message. `isLasting`: also on the page that follows. */
  offerUndo(text, undo, isLasting) {
    state.undo = { text, undo, isLasting, until: performance.now() + UNDO_MS };
    this.drawUndo();
  }

  forgetUndo() {
    state.undo = null;
    this.drawUndo();
  }

  drawUndo() {
    clearTimeout(this.undoTimer);
    const rest = (state.undo?.until ?? 0) - performance.now();
    if (rest <= 0) { show(this.undo); return; }
    const { text, undo } = state.undo;
    show(this.undo, h("span", {}, text), h("button", { type: "button", class: "quiet small", id: "undo", on: { click: () => { this.forgetUndo(); undo(); this.composer.focus(); } } }, "Undo"));
    this.undoTimer = setTimeout(() => this.forgetUndo(), rest);
  }

  fail(error) {
    show(this.said, error && failure(error));
  }

  drawProblem() {
    show(this.problem, this.talk.problem && failure({ message: this.talk.problem }));
  }

  export(kind) {
    const { conversation } = this.talk;
    if (kind === "md") download(fileName(conversation.title, "md"), "text/markdown", asMarkdown(conversation));
    else download(fileName(conversation.title, "json"), "application/json", asJson([conversation.record()]));
  }
}

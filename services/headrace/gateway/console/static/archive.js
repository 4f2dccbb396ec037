// Conversations kept by this browser, in IndexedDB. Tabs merge what they write, and tell each other of it.

import { Conversation } from "./conversation.js";

const DATABASE = "headrace";
const STORE = "conversations";
const CHANNEL = "headrace.conversations";
const MOST = 500;
const LONGEST = 8_000_000;
const SEARCHED = 20_000;
const FULL = `This browser keeps ${MOST} conversations at most. This one is shown but not kept: export or delete others first.`;
const TOO_LONG = "This conversation is too long to be kept. Export it, and start another.";
const NO_ROOM = "This browser has no room left, so this conversation is shown but not kept. Export it, or delete others.";
const NOT_KEPT = "This browser keeps nothing for this page (a private window?), so conversations are lost on reload. Export what you need.";

const asked = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

const committed = (transaction) => new Promise((resolve, reject) => {
  transaction.oncomplete = () => resolve();
  transaction.onabort = () => reject(transaction.error);
});

export class Archive extends EventTarget {
  constructor() {
    super();
    this.list = new Map();
    this.opened = null;
    this.memory = new Map();
    this.channel = new BroadcastChannel(CHANNEL);
    this.channel.onmessage = ({ data }) => this.heard(data);
  }

  /** Reads what is kept. Where a browser keeps nothing, conversations last until the page is closed. */
  async open() {
    this.opened ??= this.connect().then((database) => { this.database = database; return this.readAll(); }).catch(() => { this.database = null; this.problem = NOT_KEPT; });
    await this.opened;
  }

  async connect() {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    const database = await asked(request);
    // A browser closes it when its data are cleared: then it is opened afresh.
    database.onclose = () => { this.opened = null; this.list.clear(); };
    return database;
  }

  async readAll() {
    for (const record of await asked(this.store("readonly").getAll())) this.list.set(record.id, summary(record));
  }

  store(mode) {
    return this.database.transaction(STORE, mode).objectStore(STORE);
  }

  /** Returns the record of a conversation, or undefined where it cannot be read. */
  async read(id) {
    await this.open();
    return this.database ? asked(this.store("readonly").get(id)).catch(() => undefined) : this.memory.get(id);
  }

  async readEvery() {
    await this.open();
    return this.database ? asked(this.store("readonly").getAll()).catch(() => []) : [...this.memory.values()];
  }

  /** Keeps a conversation, with what other tabs have added to it. Returns a sentence where that fails, or "". */
  async save(conversation) {
    await this.open();
    const isNew = !this.list.has(conversation.id);
    let said = isNew && this.list.size >= MOST ? FULL : lengthOf(conversation) > LONGEST ? TOO_LONG : "";
    if (!said) said = await this.write(conversation);
    if (said && said !== NOT_KEPT) return said;
    this.list.set(conversation.id, summary(conversation.record()));
    this.tell({ saved: conversation.id });
    return said;
  }

  async write(conversation) {
    if (!this.database) {
      this.memory.set(conversation.id, structuredClone(conversation.record()));
      return this.problem;
    }
    try {
      const store = this.store("readwrite");
      const kept = committed(store.transaction);
      const held = await asked(store.get(conversation.id));
      if (held) conversation.merge(held);
      store.put(conversation.record());
      await kept;
      return "";
    } catch (error) {
      return error?.name === "QuotaExceededError" ? NO_ROOM : `This conversation could not be kept: ${error?.message ?? "the browser refuses"}.`;
    }
  }

  /** Takes out a conversation, and returns its record, which `put` takes again. */
  async remove(id) {
    const record = await this.read(id);
    if (this.database) await asked(this.store("readwrite").delete(id)).catch(() => {});
    this.memory.delete(id);
    this.list.delete(id);
    this.tell({ removed: id });
    return record;
  }

  async put(record) {
    return this.save(new Conversation(record));
  }

  tell(change) {
    this.channel.postMessage(change);
    this.dispatchEvent(new CustomEvent("change", { detail: { ...change, isOwn: true } }));
  }

  /** Follows what another tab did. */
  async heard({ saved, removed }) {
    const record = saved && (await this.read(saved));
    if (record) this.list.set(saved, summary(record));
    if (removed) this.list.delete(removed);
    this.dispatchEvent(new CustomEvent("change", { detail: { saved, removed, record, isOwn: false } }));
  }

  /** Summaries, the newest first, of conversations that hold all words of a text. */
  find(text = "") {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return [...this.list.values()].filter((one) => words.every((word) => one.text.includes(word))).sort((one, two) => two.updated - one.updated);
  }
}

const lengthOf = (conversation) => [...conversation.nodes.values()].reduce((sum, node) => sum + node.content.length + (node.reasoning?.length ?? 0) + (node.files ?? []).reduce((all, file) => all + file.text.length, 0), 0);

function summary({ id, title, updated, nodes }) {
  let text = title;
  for (const node of nodes) if (text.length < SEARCHED) text += `\n${node.content.slice(0, SEARCHED)}`;
  return { id, title, updated, text: text.toLowerCase() };
}

export const archive = new Archive();

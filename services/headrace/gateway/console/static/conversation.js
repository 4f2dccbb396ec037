// A conversation: a tree of messages, of which one path is shown. Editing and asking again make branches; nothing is overwritten.

const TITLE_LENGTH = 60;
const REMOVED_COUNT = 2000;
export const ROOT = "root";

/** A name that no other has. Made without crypto.randomUUID, which pages without TLS lack. */
export function newId() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Conversation {
  /** `record`: what `record()` gave, or nothing for a new one. */
  constructor(record = {}) {
    const now = Date.now();
    Object.assign(this, { id: newId(), title: "", isNamed: false, created: now, updated: now, model: "", settings: {} }, record);
    this.nodes = new Map((record.nodes ?? []).map((node) => [node.id, node]));
    this.chosen = { ...record.chosen };
    this.removed = { ...record.removed };
    this.children = new Map();
    for (const node of this.nodes.values()) this.link(node);
  }

  record() {
    const { id, title, isNamed, created, updated, model, settings, chosen, removed } = this;
    return { id, title, isNamed, created, updated, model, settings, chosen, removed, nodes: [...this.nodes.values()] };
  }

  link(node) {
    const siblings = this.children.get(node.parent) ?? [];
    this.children.set(node.parent, [...siblings.filter((one) => one !== node.id), node.id].sort((one, two) => this.nodes.get(one).created - this.nodes.get(two).created));
  }

  /** Adds a message below another, and shows it. */
  add(parent, fields) {
    const now = Math.max(Date.now(), ...this.under(parent).map((node) => node.created + 1));
    const node = { id: newId(), parent, created: now, updated: now, content: "", ...fields };
    this.nodes.set(node.id, node);
    this.link(node);
    this.choose(node);
    if (!this.isNamed && !this.title && node.role === "user") this.title = titleOf(node.content || node.files?.[0]?.name || "");
    return node;
  }

  change(node, fields) {
    Object.assign(node, fields, { updated: Date.now() });
    this.updated = node.updated;
  }

  rename(title) {
    Object.assign(this, { title: titleOf(title), isNamed: true, updated: Date.now() });
  }

  choose(node) {
    this.chosen[node.parent] = node.id;
    this.updated = Date.now();
  }

  /** The messages directly below one, the oldest first. */
  under(parent) {
    return (this.children.get(parent) ?? []).map((id) => this.nodes.get(id));
  }

  /** The message below another that is shown: the one chosen, or the newest. */
  next(parent) {
    const siblings = this.under(parent);
    return siblings.find((node) => node.id === this.chosen[parent]) ?? siblings.at(-1);
  }

  /** The messages shown, from the first to the last. */
  path() {
    const shown = [];
    for (let node = this.next(ROOT); node; node = this.next(node.id)) shown.push(node);
    return shown;
  }

  /** The messages from the first to this one. */
  until(node) {
    const before = [];
    for (let one = node; one; one = this.nodes.get(one.parent)) before.unshift(one);
    return before;
  }

  /** Versions of a message: its siblings, those of one group as one version. */
  versions(node) {
    const groups = new Map();
    for (const one of this.under(node.parent)) {
      const name = one.group ?? one.id;
      groups.set(name, [...(groups.get(name) ?? []), one]);
    }
    return [...groups.values()];
  }

  /** Takes out a message and all below it, in every branch. Returns what `restore` takes. */
  remove(node) {
    const gone = [node];
    for (const one of gone) gone.push(...this.under(one.id));
    for (const one of gone) {
      this.nodes.delete(one.id);
      this.children.delete(one.id);
      this.removed[one.id] = Date.now();
    }
    this.children.set(node.parent, (this.children.get(node.parent) ?? []).filter((id) => id !== node.id));
    const names = Object.keys(this.removed);
    for (const name of names.slice(0, Math.max(0, names.length - REMOVED_COUNT))) delete this.removed[name];
    this.updated = Date.now();
    return gone;
  }

  restore(gone) {
    for (const node of gone) {
      delete this.removed[node.id];
      node.updated = Date.now() + 1;
      this.nodes.set(node.id, node);
      this.link(node);
    }
    if (gone[0]) this.choose(gone[0]);
  }

  /** Takes over what another tab has added, changed or taken out since. Of two forms of a message, the newer one stays. */
  merge(record) {
    for (const [id, time] of Object.entries(record.removed ?? {})) {
      const held = this.nodes.get(id);
      if (held && held.updated <= time) this.remove(held);
      if (!held) this.removed[id] = time;
    }
    for (const node of record.nodes) {
      const held = this.nodes.get(node.id);
      if ((held ? held.updated >= node.updated : this.removed[node.id] >= node.updated)) continue;
      if (held) Object.assign(held, node);
      else { this.nodes.set(node.id, node); this.link(node); }
    }
    if (record.updated > this.updated) {
      const { title, isNamed, updated } = record;
      Object.assign(this, { title, isNamed, updated });
    }
  }
}

/** The first line of a text, as a title. */
export function titleOf(text) {
  const line = text.trim().split("\n", 1)[0].trim();
  return line.length > TITLE_LENGTH ? `${line.slice(0, TITLE_LENGTH - 1).trimEnd()}…` : line;
}

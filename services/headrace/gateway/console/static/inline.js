// What Markdown means within a line: code, emphasis, links. Builds nodes, never markup, in time linear in the text.

import { h } from "./dom.js";

const LONGEST = 100_000;
const DEEPEST = 12;
const PROTOCOLS = new Set(["http:", "https:", "mailto:"]);
const TAGS = { "*1": "em", "*2": "strong", "_1": "em", "_2": "strong", "~2": "del" };
const PLAIN = /[^\\`*_~[!<hH\n]+/y;
const TARGET = /\((?:<([^<>\n]{0,2000})>|((?:[^\s()]|\([^\s()]{0,200}\)){0,2000}))(?:[ \t]{1,9}"[^"\n]{0,500}")?\)/y;
const BARE = /https?:\/\/[^\s<>"`]{1,2000}/iy;
const ANGLED = /<((?:https?:|mailto:)[^\s<>]{1,2000})>/iy;
const BREAK = /<br {0,3}\/?>/iy;
const isWord = (character) => /[\p{L}\p{N}]/u.test(character);
const isSpace = (character) => /\s/.test(character);

/** The address of a link that may be followed: of the web or of a mail. null for all others, such as scripts. */
export function safeAddress(text) {
  try {
    const address = new URL(text);
    return PROTOCOLS.has(address.protocol) ? address.href : null;
  } catch {
    return null;
  }
}

/** The nodes of a text. `isLive`: more may follow, so what is strong begins before its end has come. */
export function inline(text, isLive = false) {
  if (text.length > LONGEST) return [text];
  return new Scan(text, true, isLive).nodes();
}

class Scan {
  constructor(text, mayLink, isLive) {
    Object.assign(this, { text, mayLink, isLive, at: 0, parts: [], openers: [] });
    this.brackets = mayLink ? bracketsOf(text) : new Map();
    this.ticks = ticksOf(text);
  }

  nodes() {
    while (this.at < this.text.length) this.step();
    const strong = this.isLive && this.openers.find((part) => part.size === 2);
    if (strong) this.close(strong);
    return build(this.parts);
  }

  step() {
    const character = this.text[this.at];
    const taken = this.match(PLAIN);
    if (taken) this.say(taken[0], taken[0].length);
    else if (character === "\n") this.breakLine();
    else if (character === "\\") this.escape();
    else if (character === "`") this.code();
    else if ("*_~".includes(character)) this.emphasis(character);
    else if (character === "[") this.link();
    else if (character === "!" && this.text[this.at + 1] === "[" && this.brackets.has(this.at + 1)) this.at += 1;
    else if (character === "<") this.angled();
    else if (character === "h" || character === "H") this.bare();
    else this.say(character, 1);
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text);
  }

  say(text, length) {
    const last = this.parts.at(-1);
    if (last?.text && !last.mark) last.text += text;
    else this.parts.push({ text });
    this.at += length;
  }

  put(node, length) {
    this.parts.push({ node });
    this.at += length;
  }

  breakLine() {
    const last = this.parts.at(-1);
    if (last?.text) last.text = last.text.replace(/ {1,9}$/, "");
    this.put(h("br"), 1);
  }

  escape() {
    const next = this.text[this.at + 1] ?? "";
    if (next === "\n") this.at += 1;
    else if (/[!-/:-@[-`{-~]/.test(next)) this.say(next, 2);
    else this.say("\\", 1);
  }

  code() {
    const size = runAt(this.text, this.at);
    const end = this.ticks.next(size, this.at);
    if (end === undefined) { this.say("`".repeat(size), size); return; }
    const raw = this.text.slice(this.at + size, end).replaceAll("\n", " ");
    const isPadded = raw.startsWith(" ") && raw.endsWith(" ") && raw.trim() !== "";
    this.put(h("code", {}, isPadded ? raw.slice(1, -1) : raw), end + size - this.at);
  }

  emphasis(character) {
    const size = runAt(this.text, this.at);
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[this.at + size] ?? " ";
    const isWithin = character === "_";
    const canOpen = !isSpace(after) && !(isWithin && isWord(before));
    const canClose = !isSpace(before) && !(isWithin && isWord(after));
    const sizes = size === 3 && character !== "~" ? [2, 1] : [size];
    this.at += size;
    if (!sizes.every((one) => character + one in TAGS)) { this.parts.push({ text: character.repeat(size) }); return; }
    const left = canClose ? sizes.filter((one) => !this.closed(character, one)) : sizes;
    const isFresh = canOpen && left.length === sizes.length;
    for (const one of left.reverse()) {
      const part = { text: character.repeat(one), mark: character, size: one };
      this.parts.push(part);
      if (isFresh) this.openers.push(part);
    }
    while (this.openers.length > DEEPEST) this.openers.shift();
  }

  /** Ends the last emphasis of this kind, if one is open. Those that began within it begin nothing. */
  closed(character, size) {
    const opener = this.openers.findLast((part) => part.mark === character && part.size === size);
    if (opener) this.close(opener);
    return Boolean(opener);
  }

  close(opener) {
    this.openers.length = this.openers.indexOf(opener);
    opener.tag = TAGS[opener.mark + opener.size];
    this.parts.push({ isEnd: true });
  }

  link() {
    const end = this.brackets.get(this.at);
    TARGET.lastIndex = (end ?? 0) + 1;
    const target = end && TARGET.exec(this.text);
    const address = target && safeAddress(target[1] ?? target[2]);
    if (!target) this.say("[", 1);
    else {
      const inner = new Scan(this.text.slice(this.at + 1, end), false, false).nodes();
      const length = TARGET.lastIndex - this.at;
      this.put(address ? anchor(address, inner.length ? inner : [address]) : h("span", {}, inner), length);
    }
  }

  angled() {
    const broken = this.match(BREAK);
    const found = this.match(ANGLED);
    const address = found && this.mayLink && safeAddress(found[1]);
    if (broken) this.put(h("br"), broken[0].length);
    else if (address) this.put(anchor(address, [found[1].replace(/^mailto:/i, "")]), found[0].length);
    else this.say("<", 1);
  }

  bare() {
    const found = this.mayLink && !isWord(this.text[this.at - 1] ?? " ") && this.match(BARE);
    const shown = found && trimmed(found[0]);
    const address = shown && safeAddress(shown);
    if (address) this.put(anchor(address, [shown]), shown.length);
    else this.say(this.text[this.at], 1);
  }
}

const anchor = (href, children) => h("a", { href, target: "_blank", rel: "noopener noreferrer" }, children);

/** An address without the marks that end a sentence around it. */
function trimmed(text) {
  let end = text.length;
  const opened = text.split("(").length;
  let closed = text.split(")").length;
  while (end > 0 && (".,;:!?'*_~]".includes(text[end - 1]) || (text[end - 1] === ")" && closed > opened))) {
    if (text[end - 1] === ")") closed -= 1;
    end -= 1;
  }
  return text.slice(0, end);
}

function runAt(text, at) {
  let end = at + 1;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

/** The closing bracket of each opening one. */
function bracketsOf(text) {
  const pairs = new Map();
  const open = [];
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === "[") open.push(at);
    else if (text[at] === "]" && open.length) pairs.set(open.pop(), at);
  }
  return pairs;
}

/** Runs of backticks by their length, asked for in the order of the text. */
function ticksOf(text) {
  const runs = new Map();
  for (let at = text.indexOf("`"); at >= 0; at = text.indexOf("`", at)) {
    const size = runAt(text, at);
    if (!runs.has(size)) runs.set(size, { places: [], next: 0 });
    runs.get(size).places.push(at);
    at += size;
  }
  return {
    next(size, after) {
      const run = runs.get(size);
      while (run?.places[run.next] <= after) run.next += 1;
      return run?.places[run.next];
    },
  };
}

function build(parts) {
  const root = [];
  const stack = [];
  const add = (node) => (stack.length ? stack.at(-1).children : root).push(node);
  for (const part of parts) {
    if (part.isEnd) {
      const { tag, children } = stack.pop();
      add(h(tag, {}, children));
    } else if (part.tag) stack.push({ tag: part.tag, children: [] });
    else add(part.node ?? part.text);
  }
  return root;
}

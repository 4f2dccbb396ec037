// Markdown as it arrives. Blocks that are complete stay as they are; only the unfinished end is drawn again.

import { readBlocks, untabbed } from "./blocks.js";
import { copyButton, h } from "./dom.js";
import { highlight } from "./highlight.js";
import { inline } from "./inline.js";

const TOP_HEADING = 2;
const LIVE_LENGTH = 8000;
const TASK = /^\[([ xX])\] /;

export class MarkdownView {
  /** Draws into `root`, which must have no other content. */
  constructor(root) {
    Object.assign(this, { root, closedLength: 0, levels: [], tail: [], openCode: null });
  }

  /** Shows a text, which begins with the one shown before. `isDone`: nothing more comes. */
  update(text, isDone) {
    const lines = text.slice(this.closedLength).split("\n");
    const blocks = readBlocks(lines.map(untabbed));
    const closedCount = isDone ? blocks.length : closedBlocks(blocks, lines.length);
    if (this.growsCode(blocks, isDone)) return;
    this.clearTail();
    for (const block of blocks.slice(0, closedCount)) this.root.append(drawBlock(block, this.levels, false));
    const levels = [...this.levels];
    this.tail = blocks.slice(closedCount).map((block) => drawBlock(block, levels, !isDone));
    for (const node of this.tail) this.root.append(node);
    const open = blocks.length - closedCount === 1 && blocks.at(-1);
    this.openCode = open.kind === "code" && !open.isClosed ? { code: this.tail[0].querySelector("code"), language: open.language } : null;
    this.closedLength += lengthOf(lines, isDone ? lines.length : (blocks[closedCount]?.line ?? 0));
  }

  /** Appends to code that is still open, so that its place and the reader's in it stay. */
  growsCode(blocks, isDone) {
    const block = blocks[0];
    if (!this.openCode || isDone || blocks.length !== 1 || block.kind !== "code" || block.isClosed || block.language !== this.openCode.language) return false;
    this.openCode.code.replaceChildren(...colored(block, true));
    return true;
  }

  clearTail() {
    for (const node of this.tail) node.remove();
    this.tail = [];
  }
}

/** Characters of the first lines, with the ends of the lines. */
function lengthOf(lines, count) {
  let length = 0;
  for (let at = 0; at < count; at += 1) length += lines[at].length + 1;
  return length;
}

/** The number of blocks that nothing to come can change: those before one whose first line is complete. */
function closedBlocks(blocks, lineCount) {
  const last = blocks.findLastIndex((block) => block.line < lineCount - 1);
  return Math.max(0, last);
}

function drawBlock(block, levels, isLive) {
  if (block.kind === "heading") return drawHeading(block, levels, isLive);
  if (block.kind === "rule") return h("hr");
  if (block.kind === "code") return drawCode(block, isLive);
  if (block.kind === "quote") return h("blockquote", {}, block.blocks.map((one) => drawBlock(one, levels, isLive)));
  if (block.kind === "list") return drawList(block, levels, isLive);
  if (block.kind === "table") return drawTable(block);
  return h("p", {}, inline(block.text, isLive));
}

/** A heading one level below the last smaller one, whatever levels a model leaves out: readers by ear go by them. */
function drawHeading({ level, text }, levels, isLive) {
  while (levels.length && levels.at(-1) >= level) levels.pop();
  levels.push(level);
  return h(`h${Math.min(6, TOP_HEADING + levels.length)}`, { class: `md-${Math.min(level, 4)}` }, inline(text, isLive));
}

/** The nodes of a code. One that grows is colored again and again, so only while it is short. */
const colored = ({ language, text, isClosed }, isLive) => (isLive && !isClosed && text.length > LIVE_LENGTH ? [text] : highlight(text, language));

function drawCode(block, isLive) {
  const { language } = block;
  const code = h("code", {}, colored(block, isLive));
  return h("div", { class: "md-code" }, h("div", { class: "md-code-head" }, h("span", {}, language || "text"), copyButton("Copy", "Code", () => code.textContent)),
    h("pre", { tabindex: "0", role: "group", "aria-label": language ? `Code, ${language}` : "Code" }, code));
}

function drawList({ isOrdered, start, isLoose, items }, levels, isLive) {
  return h(isOrdered ? "ol" : "ul", { class: isLoose && "loose", start: isOrdered && start !== 1 && start }, items.map((item) => h("li", {}, item.map((block, at) => {
    const task = at === 0 && block.kind === "paragraph" && TASK.exec(block.text);
    return drawBlock(task ? { ...block, text: `${task[1] === " " ? "☐" : "☑"} ${block.text.slice(task[0].length)}` } : block, levels, isLive);
  }))));
}

function drawTable({ head, aligns, rows }) {
  const cell = (tag, more) => (text, column) => h(tag, { class: aligns[column] || false, ...more }, inline(text));
  return h("div", { class: "scroll md-table", tabindex: "0", role: "group", "aria-label": "Table" },
    h("table", {}, h("thead", {}, h("tr", {}, head.map(cell("th", { scope: "col" })))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell("td", {})))))));
}

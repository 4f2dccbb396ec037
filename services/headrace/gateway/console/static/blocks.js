// What the lines of a Markdown text begin or continue: headings, lists, quotes, tables, code. Reads each line once a level.

const DEEPEST = 12;
const MOST_COLUMNS = 40;
const RULE_LENGTH = 200;
const MARKER = /^( {0,9})([-*+]|\d{1,9}[.)])(?: {1,4}(?=\S)| |$)/;
const QUOTE = /^ {0,3}> ?/;
const isBlank = (line) => line.trim() === "";

/** The blocks of lines, each with the number of its first line. */
export function readBlocks(lines, depth = 0) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) { at += 1; continue; }
    const [block, next] = depth < DEEPEST ? readBlock(lines, at, depth) : [{ kind: "paragraph", text: lines.slice(at).join("\n") }, lines.length];
    blocks.push({ ...block, line: at });
    at = next;
  }
  return blocks;
}

/** A line whose leading tabs are spaces. */
export const untabbed = (line) => (line[0] === "\t" || line[0] === " " ? line.replace(/^[ \t]+/, (space) => space.replaceAll("\t", "    ")) : line);

function readBlock(lines, at, depth) {
  const line = lines[at];
  const fence = fenceOf(line);
  if (fence) return readCode(lines, at, fence);
  const heading = headingOf(line);
  if (heading) return [heading, at + 1];
  if (isRule(line)) return [{ kind: "rule" }, at + 1];
  if (QUOTE.test(line)) return readQuote(lines, at, depth);
  if (markerOf(line)) return readList(lines, at, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at);
}

function indentOf(line) {
  let end = 0;
  while (line[end] === " ") end += 1;
  return end;
}

/** The opening line of a block of code, or null. */
function fenceOf(line) {
  const indent = indentOf(line);
  const mark = line[indent];
  if (mark !== "`" && mark !== "~") return null;
  let end = indent;
  while (line[end] === mark) end += 1;
  const info = line.slice(end).trim();
  if (end - indent < 3 || (mark === "`" && info.includes("`"))) return null;
  return { mark, size: end - indent, indent, language: info.split(" ", 1)[0].slice(0, 40) };
}

function closes(line, { mark, size }) {
  const bare = line.trim();
  if (bare.length < size || bare[0] !== mark) return false;
  for (const character of bare) if (character !== mark) return false;
  return true;
}

function readCode(lines, at, fence) {
  const held = [];
  for (let next = at + 1; next < lines.length; next += 1) {
    if (closes(lines[next], fence)) return [{ kind: "code", language: fence.language, text: held.join("\n"), isClosed: true }, next + 1];
    held.push(lines[next].slice(Math.min(fence.indent, indentOf(lines[next]))));
  }
  return [{ kind: "code", language: fence.language, text: held.join("\n"), isClosed: false }, lines.length];
}

function headingOf(line) {
  const indent = indentOf(line);
  let end = indent;
  while (line[end] === "#") end += 1;
  const level = end - indent;
  if (level < 1 || level > 6 || indent > 3 || (end < line.length && line[end] !== " ")) return null;
  let text = line.slice(end).trim();
  let last = text.length;
  while (text[last - 1] === "#") last -= 1;
  if (last === 0 || text[last - 1] === " ") text = text.slice(0, last).trim();
  return { kind: "heading", level, text };
}

function isRule(line) {
  if (line.length > RULE_LENGTH) return false;
  const bare = line.replaceAll(" ", "");
  return bare.length >= 3 && "-*_".includes(bare[0]) && bare === bare[0].repeat(bare.length);
}

function readQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  return [{ kind: "quote", blocks: readBlocks(lines.slice(at, end).map((line) => line.replace(QUOTE, "")), depth + 1) }, end];
}

function markerOf(line) {
  const found = MARKER.exec(line);
  if (!found || isRule(line)) return null;
  const [whole, space, mark] = found;
  const isOrdered = mark.length > 1;
  return { indent: space.length, width: Math.max(whole.length, space.length + mark.length + 1), kind: isOrdered ? mark.at(-1) : mark, isOrdered, number: Number.parseInt(mark, 10) };
}

/** Items, each of its own lines without their indentation. A line belongs to the item above if it is indented, continues its
 * paragraph, or lies in a block of code that the item began. */
function readList(lines, at, depth) {
  const first = markerOf(lines[at]);
  const items = [];
  let fence = null, wasBlank = false, isLoose = false, end = at;
  for (; end < lines.length; end += 1) {
    const line = lines[end];
    const marker = fence ? null : markerOf(line);
    const indent = indentOf(line);
    let own;
    if (marker && marker.indent < first.indent + 2) {
      if (marker.kind !== first.kind) break;
      isLoose ||= wasBlank;
      items.push([]);
      first.width = marker.width;
      own = line.slice(marker.width);
    } else if (fence || isBlank(line) || indent >= first.indent + 2 || !(wasBlank || interrupts(lines, end))) own = line.slice(Math.min(indent, first.width));
    else break;
    items.at(-1).push(own);
    fence = fence ? (closes(own, fence) ? null : fence) : fenceOf(own);
    wasBlank = isBlank(line);
  }
  return [{ kind: "list", isOrdered: first.isOrdered, start: first.number, isLoose, items: items.map((item) => readBlocks(item, depth + 1)) }, end];
}

const isSeparator = (line) => line !== undefined && line.length < 2000 && line.includes("-") && line.includes("|") && /^[ |:-]+$/.test(line);
const isTable = (lines, at) => lines[at].includes("|") && isSeparator(lines[at + 1]) && cellsOf(lines[at]).length === cellsOf(lines[at + 1]).length;

function cellsOf(line) {
  const cells = [""];
  for (let at = 0; at < line.length; at += 1) {
    if (line[at] === "|" && cells.length < MOST_COLUMNS + 2) cells.push("");
    else if (line[at] === "\\" && line[at + 1] === "|") { cells[cells.length - 1] += "|"; at += 1; } else cells[cells.length - 1] += line[at];
  }
  const trimmed = cells.map((cell) => cell.trim());
  if (trimmed[0] === "") trimmed.shift();
  if (trimmed.at(-1) === "") trimmed.pop();
  return trimmed;
}

function readTable(lines, at) {
  const head = cellsOf(lines[at]);
  const aligns = cellsOf(lines[at + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "to-middle" : "to-end") : ""));
  const rows = [];
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|"); end += 1) {
    const cells = cellsOf(lines[end]);
    rows.push(head.map((_, column) => cells[column] ?? ""));
  }
  return [{ kind: "table", head, aligns, rows }, end];
}

/** Whether a line ends the paragraph above it. */
function interrupts(lines, at) {
  const line = lines[at];
  const marker = markerOf(line);
  const isItem = marker && (!marker.isOrdered || marker.number === 1) && line.length > marker.width;
  return Boolean(fenceOf(line) || headingOf(line) || isRule(line) || QUOTE.test(line) || isItem || isTable(lines, at));
}

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !interrupts(lines, end)) end += 1;
  return [{ kind: "paragraph", text: lines.slice(at, end).map((line) => line.trimStart()).join("\n").trimEnd() }, end];
}

// Code in few colors: comments, texts, numbers, keywords. One pass, by no grammar of any one language.

import { h } from "./dom.js";

const LONGEST = 50_000;
const HASHED = new Set(["python", "py", "bash", "sh", "shell", "zsh", "console", "ruby", "rb", "yaml", "yml", "toml", "r", "perl", "make", "makefile", "dockerfile", "ini", "conf", "elixir", "julia", "nix"]);
const DASHED = new Set(["sql", "lua", "haskell", "hs", "ada", "elm"]);
const MARKED = new Set(["html", "xml", "svg", "vue"]);
const PLAIN = new Set(["text", "txt", "plain", "plaintext", "output", "log", "markdown", "md", "diff", "csv"]);
const KEYWORDS = new Set(`abstract and as async await begin bool boolean break byte case catch char class const continue crate def default defer
 del delete do double elif else elsif end enum except export extends extern false final finally float fn for foreach from func function global go goto
 if impl implements import in include inline instanceof int interface is lambda let long loop match mod module move mut namespace native new nil None
 nonlocal not null nullptr of operator or override package pass private protected pub public raise readonly ref require return self short signed
 sizeof static string struct super switch template then this throw throws trait true True False try type typedef typeof undefined union unless unsafe
 unsigned until use using val var virtual void volatile when where while with yield fi done esac echo local
 select insert update delete create table alter drop join left right inner outer on group by order having limit values into set distinct primary key`.split(/\s+/));
const STRINGS = String.raw`"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|` + "`(?:[^`\\\\]|\\\\[\\s\\S])*`?";
const NUMBERS = String.raw`(?<![\w.])\d[\w.]*`;
const WORDS = String.raw`[A-Za-z_]\w*`;

/** The nodes of a code. Without a language that is known to be code, or where it is long, the text alone. */
export function highlight(code, language) {
  const name = language.toLowerCase();
  if (!name || PLAIN.has(name) || code.length > LONGEST) return [code];
  const kinds = new RegExp(`(?<c>${comments(name)})|(?<s>${STRINGS})|(?<n>${NUMBERS})|(?<w>${WORDS})`, "g");
  const isSql = name === "sql";
  const nodes = [];
  let end = 0;
  for (const found of code.matchAll(kinds)) {
    const kind = kindOf(found.groups, isSql);
    if (!kind) continue;
    nodes.push(code.slice(end, found.index), h("span", { class: kind }, found[0]));
    end = found.index + found[0].length;
  }
  return [...nodes, code.slice(end)].filter(Boolean);
}

function comments(name) {
  if (HASHED.has(name)) return String.raw`(?<!\S)#[^\n]*`;
  if (DASHED.has(name)) return String.raw`--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
  if (MARKED.has(name)) return String.raw`<!--[\s\S]*?(?:-->|$)`;
  if (name === "json") return String.raw`(?!)`;
  return String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
}

function kindOf({ c, s, n, w }, isSql) {
  if (c !== undefined) return "hl-comment";
  if (s !== undefined) return "hl-text";
  if (n !== undefined) return "hl-number";
  return KEYWORDS.has(isSql ? w.toLowerCase() : w) ? "hl-word" : null;
}

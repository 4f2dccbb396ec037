// Draws the tokens of answers in node, and prints what a page shows of them.

import "./tiny_dom.mjs";
import { readFileSync } from "node:fs";

const { tokensUntilEnd, tokenView } = await import(process.argv[2]);
const given = JSON.parse(readFileSync(0, "utf8"));

const [listed, detail] = tokenView(given.shown);

process.stdout.write(JSON.stringify({
  hint: detail.textContent,
  texts: listed.childNodes.map((span) => span.textContent),
  labels: listed.childNodes.map((span) => span.attributes["aria-label"]),
  shades: listed.childNodes.map((span) => parseInt(span.style["--shade"], 10)),
  ends: given.answers.map(([tokens, text]) => tokensUntilEnd(tokens, text).map((token) => token.token)),
}));

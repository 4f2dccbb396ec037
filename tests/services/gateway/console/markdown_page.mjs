// Draws texts as the console does: reads [{text, steps}] and prints, for each, what is drawn, its depth, the milliseconds that it
// took, and how many of the first blocks stayed the same elements. `steps`: into how many pieces the text is cut as it arrives.

import { readFileSync } from "node:fs";
import "./tiny_dom.mjs";

const { MarkdownView } = await import(process.argv[2]);

function drawn({ text, steps = 1 }) {
  const root = document.createElement("div");
  const view = new MarkdownView(root);
  const began = performance.now();
  let kept = 0, first;
  for (let step = 1; step < steps; step += 1) {
    view.update(text.slice(0, Math.round((text.length * step) / steps)), false);
    first ??= root.childNodes.length > 2 ? root.childNodes[0] : undefined;
    kept += first !== undefined && root.childNodes[0] === first;
  }
  const live = root.outline;
  view.update(text, true);
  const milliseconds = performance.now() - began;
  return { outline: root.outline.slice(5, -6).slice(0, 20_000), live: live.slice(5, -6).slice(0, 20_000), depth: root.depth, milliseconds, kept };
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(drawn)));

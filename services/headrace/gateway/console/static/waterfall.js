// Where the time of one request went: a bar for each stage, from its begin to its end.

import { h } from "./dom.js";
import { milliseconds, share } from "./format.js";
import { MEANINGS, longestOf } from "./stages.js";

export const sumOf = (record) => Object.values(record.stages_ms).reduce((sum, spent) => sum + spent, 0);

/** Draws `stages_ms` and `total_ms`. `wallMs`: what the browser measured, if it did. */
export function waterfall(record, wallMs = null) {
  const stages = Object.entries(record.stages_ms);
  if (!stages.length) return h("p", { class: "muted empty" }, "No stage was measured.");
  const total = Math.max(record.total_ms, sumOf(record)) || 1;
  const [longest] = longestOf(record);
  let begin = 0;
  const rows = stages.map(([stage, spent]) => {
    const bar = h("span", { class: "fall-bar", "aria-hidden": "true", vars: { "--begin": begin / total, "--spent": spent / total } });
    begin += spent;
    return h("tr", { class: stage === longest && "longest", title: MEANINGS[stage] },
      h("th", { scope: "row" }, stage), h("td", { class: "fall-track" }, bar),
      h("td", { class: "number" }, milliseconds(spent)), h("td", { class: "number" }, share(spent / total)),
      h("td", { class: "meaning" }, MEANINGS[stage] ?? ""));
  });
  const titles = [["Stage"], [h("span", { class: "offscreen" }, "Bar"), "fall-track"], ["Time", "number"], ["Share", "number"], ["", "meaning"]];
  const head = titles.map(([title, kind]) => (title ? h("th", { scope: "col", class: kind }, title) : h("td", { class: kind })));
  const table = h("table", { class: "fall" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
  return h("figure", { class: "fall-figure" }, table, h("figcaption", { class: "muted small" }, verdict(record, wallMs)));
}

function verdict(record, wallMs) {
  // Both are rounded: the sum may be larger by a hair.
  const sum = Math.min(sumOf(record), record.total_ms);
  const parts = [`Stages add up to ${milliseconds(sum)} of ${milliseconds(record.total_ms)} (${share(sum / (record.total_ms || 1))}).`];
  const rest = wallMs - record.total_ms;
  if (wallMs) parts.push(`This browser waited ${milliseconds(wallMs)}${rest > 0 ? `: ${milliseconds(rest)} on the way and in the page` : ""}.`);
  return parts.join(" ");
}

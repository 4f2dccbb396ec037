// The console's operations in node: sentences about requests, the search, and lines of charts.

import "./tiny_dom.mjs";
import { readFileSync } from "node:fs";

const near = (name) => import(new URL(name, process.argv[2]));
const { cachedTokens } = await near("cached.js");
const { chart } = await near("chart.js");
const { search } = await near("search.js");
const { roundUp, runs, summary, trend } = await near("trend.js");
const { verdictOf } = await near("verdict.js");
const { waterfall } = await near("waterfall.js");
const given = JSON.parse(readFileSync(0, "utf8"));

const drawn = (times, series) => chart("Speed", times, series, (value) => `${value}/s`);
const found = (all, element, tag) => { if (element.tag === tag) all.push(element); for (const child of element.childNodes ?? []) found(all, child, tag); return all; };
const [gap] = [drawn([0, 10, 20, 600], [["", [1, null, 3, 4]]])];
const pair = drawn([0, 10], [["median", [1, 2]], ["95th", [null, null]]]);

process.stdout.write(JSON.stringify({
  cached: given.cached.map(cachedTokens),
  verdicts: given.records.map(verdictOf),
  sums: given.sums.map((one) => found([], waterfall(one), "figcaption")[0].textContent),
  searches: given.searches.map((one) => search(given.listed, one, given.now).map((record) => record.id)),
  trends: given.trends.map(([figure, model]) => trend(given.history, figure, model)),
  summary: [summary([1, null, 3]), summary([null, null])],
  runs: runs([0, 10, 20, 30], [1, 2, null, 4], 0, 40, 4),
  tops: [0, 0.03, 1, 1.2, 3, 7, 100, 101].map(roundUp),
  text: found([], gap, "svg")[0].attributes["aria-label"],
  lines: found([], gap, "polyline").length,
  pairText: found([], pair, "svg")[0].attributes["aria-label"],
  untouched: given.listed.map((record) => record.id),
}));

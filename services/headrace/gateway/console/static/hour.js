// The last hour of the fleet, as the gateway kept it: it is there after a reload.

import { get, poll } from "./api.js";
import { chart } from "./chart.js";
import { failure, h, show } from "./dom.js";
import { count, milliseconds, share } from "./format.js";
import { modelsOf, trend } from "./trend.js";

const REFRESH_MS = 10_000;
const chosen = { model: "" };

const perSecond = (value) => `${value >= 100 ? count(Math.round(value)) : Number(value.toFixed(value < 10 ? 2 : 1))}/s`;
const whole = (value) => count(Math.round(value * 10) / 10);

const CHARTS = [
  ["Requests ended", [["", "requests_per_second"]], perSecond],
  ["Output tokens", [["", "tokens_per_second"]], perSecond],
  ["Time to first token", [["median", "ttft_p50_ms"], ["p95", "ttft_p95_ms"]], milliseconds],
  ["Running", [["", "running"]], whole],
  ["Queued", [["", "queued"]], whole],
  ["KV blocks in use", [["", "kv_usage"]], share, 1],
];

/** A section that reads and draws itself. */
export function hourSection(signal) {
  const body = h("div", { class: "charts" });
  const said = h("p", { class: "muted small" });
  let history = null;
  const select = h("select", { id: "hour-model", on: { change: () => { chosen.model = select.value; draw(); } } });
  const draw = () => {
    refill(select, history);
    show(body, history.times.length ? CHARTS.map(([title, series, write, top]) => chart(title, history.times, series.map(([name, figure]) => [name, trend(history, figure, chosen.model)]), write, top))
      : h("p", { class: "muted empty panel" }, `The first point comes within ${history.step_seconds} seconds.`));
    said.textContent = `One point each ${history.step_seconds} seconds. Requests, tokens and times to the first token are counted by the gateway that answered (${history.gateway}); the rest is the whole platform's.`;
  };
  const read = async () => {
    try {
      history = await get("headrace/fleet/history");
      if (!signal.aborted) draw();
    } catch (error) {
      if (!signal.aborted) show(body, failure(error));
    }
  };
  poll(read, REFRESH_MS, signal);
  return h("section", { class: "stack", "aria-labelledby": "hour-title" },
    h("div", { class: "page-head" }, h("h2", { class: "section-title", id: "hour-title" }, "The last hour"), h("div", { class: "field" }, h("label", { for: "hour-model" }, "Model"), select)), body, said);
}

function refill(select, history) {
  const names = modelsOf(history);
  if (!names.includes(chosen.model)) chosen.model = "";
  if (select.length !== names.length + 1) show(select, [h("option", { value: "" }, "all"), ...names.map((name) => h("option", { value: name }, name))]);
  select.value = chosen.model;
}

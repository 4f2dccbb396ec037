// Services, workers and queues, every second.

import { get, poll } from "./api.js";
import { failure, h, show, svg, table } from "./dom.js";
import { bytes, count, share } from "./format.js";

const REFRESH_MS = 1000;
const SAMPLES = 60;
const history = { running: [], waiting: [], kv: [], open: [] };

export function fleetPage(main, signal) {
  const body = h("div", { class: "stack" }, h("p", { class: "muted empty" }, "Reading…"));
  show(main, h("div", { class: "page-head" }, h("h1", {}, "Fleet"), h("p", { class: "muted" }, "All services and gateways, every second.")), body);
  poll(async () => {
    try {
      const report = await get("headrace/fleet");
      if (!signal.aborted) show(body, ...draw(report));
    } catch (error) {
      if (!signal.aborted) show(body, failure(error));
    }
  }, REFRESH_MS, signal);
}

const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);

function draw(report) {
  const { workers, queues, open } = report;
  const blocks = sum(workers, "kv_blocks");
  const now = {
    open: sum(open, "requests"), running: sum(workers, "running"),
    waiting: sum(workers, "waiting") + sum(queues, "waiting"), kv: blocks ? sum(workers, "kv_blocks_used") / blocks : 0,
  };
  for (const [name, value] of Object.entries(now)) history[name] = [...history[name], value].slice(-SAMPLES);
  return [
    h("section", { class: "panel" }, h("h2", {}, "Services"), services(report)),
    h("div", { class: "tiles" }, tile("Open requests", count(now.open), "open"), tile("Running", count(now.running), "running"),
      tile("Waiting", count(now.waiting), "waiting"), tile("KV blocks in use", share(now.kv), "kv", 1)),
    h("section", { class: "panel flush" }, h("h2", {}, "Workers"), table("Workers", LOAD, workers.map(load), "No worker is known yet.")),
    h("section", { class: "panel flush" }, h("h2", {}, "Caches and memory"), table("Caches and memory", MEMORY, workers.map(memory), "No worker is known yet.")),
    h("div", { class: "halves" },
      h("section", { class: "panel flush" }, h("h2", {}, "Queues of the schedulers"), table("Queues", [["Scheduler"], ["Model"], ["Waiting", true]],
        queues.map((queue) => [queue.scheduler, queue.model, count(queue.waiting)]), "Nothing has been queued.")),
      h("section", { class: "panel flush" }, h("h2", {}, "Open requests"), table("Open requests", [["Model"], ["Class"], ["Tenant"], ["Requests", true]],
        open.map((group) => [group.model, group.class, group.tenant, count(group.requests)]), "None is open."))),
  ];
}

function services(report) {
  const all = { gateway: report.status === "stopping" ? "stopping" : "ready", ...report.services };
  return h("ul", { class: "services" }, Object.entries(all).map(([name, state]) =>
    h("li", {}, h("span", { class: "dot", "data-state": state === "ready" ? "ready" : "waiting", "aria-hidden": "true" }), h("b", {}, name), h("span", { class: "muted" }, state))));
}

const LOAD = [["Worker"], ["Model"], ["State"], ["Running", true], ["Waiting", true], ["Sessions", true], ["Credit", true], ["KV blocks", true], ["In use", true]];
const MEMORY = [["Worker"], ["Prefix hits", true], ["Drafts right", true], ["Preempted", true], ["Weights", true], ["KV cache", true], ["Process", true]];

function load(one) {
  return [one.id, one.model, h("span", { class: one.state === "ready" ? "tag" : "tag bad" }, one.state), count(one.running), count(one.waiting),
    count(one.sessions), count(one.credit), `${count(one.kv_blocks_used)} / ${count(one.kv_blocks)}`, meter(one.kv_usage, `KV blocks of ${one.id}`)];
}

function memory(one) {
  const ratio = (part, of) => (of ? share(part / of) : "–");
  return [one.id, ratio(one.cached_tokens, one.looked_up_tokens), ratio(one.accepted_tokens, one.draft_tokens), count(one.preemptions),
    bytes(one.weight_bytes), bytes(one.kv_bytes), bytes(one.resident_bytes)];
}

function meter(value, label) {
  return h("span", { class: "meter", role: "img", "aria-label": `${label}: ${share(value)} in use` }, h("span", { vars: { "--share": value } }));
}

function tile(name, value, series, top = 0) {
  return h("section", { class: "panel tile" }, h("h2", {}, name), h("p", { class: "big" }, value), spark(history[series], top));
}

/** The last minute as a line. `top`: value at the upper edge; 0: the largest of them. */
function spark(values, top) {
  const most = top || Math.max(1, ...values);
  const points = values.map((value, at) => `${(at + SAMPLES - values.length) * 2},${(31 - (value / most) * 30).toFixed(1)}`);
  return svg("svg", { class: "spark", viewBox: `0 0 ${(SAMPLES - 1) * 2} 32`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "base", d: `M0,31 H${(SAMPLES - 1) * 2}` }), svg("polyline", { points: points.join(" ") }));
}

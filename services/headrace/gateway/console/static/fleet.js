// Services, workers and queues, every second, and the last hour.

import { get, poll } from "./api.js";
import { failure, h, show } from "./dom.js";
import { drainButton } from "./drain.js";
import { bytes, count, share } from "./format.js";
import { hint } from "./hints.js";
import { hourSection } from "./hour.js";
import { LiveTable } from "./livetable.js";
import { servedSection } from "./served.js";

const REFRESH_MS = 1000;
const NONE = "–";

export function fleetPage(main, signal) {
  const page = new FleetPage(main, signal);
  page.open();
}

const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);

const LOAD = () => [["Worker"], ["Model", false, "wide"], ["State"], ["Running", true], [hint("Waiting", "Sequences that the worker has taken and not begun yet."), true, "wide"],
  [hint("Sessions", "Sequences that the worker holds state for: running, waiting, or set aside for others."), true, "wide"], [hint("Credit", "Further sequences that the worker would take now. At 0 it is full, and requests wait in the scheduler's queue."), true, "wide"],
  [hint("KV blocks", "Blocks of keys and values that live sequences hold, of all that the worker has. A model that makes embeddings has none."), true, "wide"], ["In use", true], [h("span", { class: "offscreen" }, "Actions"), true]];
const MEMORY = () => [["Worker"], [hint("Prefix hits", "Share of the prompt tokens that were in the prefix cache already and did not have to be computed."), true, "wide"], [hint("Draft acceptance", "Share of the drafted tokens that were right. A dash: the worker drafts none."), true, "wide"],
  [hint("Preempted", "Times that a running sequence had to give up its blocks to others and continued later."), true, "wide"], [hint("Weights", "Memory of the model's weights."), true, "wide"],
  [hint("KV reserved", "Memory set aside for keys and values when the worker started. What was never written to does not count in the process's memory, so this may be more."), true],
  [hint("Process memory", "Main memory that the worker's process holds right now: of what it reserved, only what it has used."), true]];

class FleetPage {
  constructor(main, signal) {
    Object.assign(this, { main, signal, isOpen: false });
    this.said = h("div", {}, h("p", { class: "muted empty" }, "Reading…"));
    this.services = h("div", {});
    this.tiles = h("div", { class: "tiles" });
    this.workers = new LiveTable("Workers", LOAD(), "No worker is known yet.");
    this.memory = new LiveTable("Caches and memory", MEMORY(), "No worker is known yet.");
    this.queues = new LiveTable("Queues", [["Scheduler"], ["Model"], ["Waiting", true]], "Nothing has been queued.");
    this.requests = new LiveTable("Open requests", [["Model"], ["Class"], ["Tenant"], ["Requests", true]], "None is open.");
  }

  open() {
    show(this.main, h("div", { class: "page-head" }, h("h1", {}, "Fleet"), h("p", { class: "muted" }, "All services and gateways, updated every second.")), this.said);
    poll(() => this.read(), REFRESH_MS, this.signal);
  }

  async read() {
    try {
      const report = await get("headrace/fleet");
      if (this.signal.aborted) return;
      if (!this.isOpen) this.lay(report.caller.may_drain);
      this.draw(report);
      this.said.hidden = true;
    } catch (error) {
      if (!this.signal.aborted) { show(this.said, failure(error)); this.said.hidden = false; }
    }
  }

  lay(mayChange) {
    this.isOpen = true;
    const panel = (title, table) => h("section", { class: "panel flush" }, h("h2", {}, title), table.element);
    this.main.append(h("section", { class: "panel" }, h("h2", {}, "Services"), this.services), this.tiles, panel("Workers", this.workers), ...(mayChange ? [servedSection(this.signal)] : []), hourSection(this.signal),
      panel("Caches and memory", this.memory), h("div", { class: "halves" }, panel("Queues of the schedulers", this.queues), panel("Open requests", this.requests)));
  }

  draw(report) {
    const { workers, queues, open, caller } = report;
    const blocks = sum(workers, "kv_blocks");
    const waiting = sum(workers, "waiting") + sum(queues, "waiting");
    const isShared = workers.some((one) => one.residence && one.residence !== "awake");
    show(this.services, services(report));
    show(this.tiles, tile("Open requests", count(sum(open, "requests"))), tile("Running", count(sum(workers, "running"))),
      tile("Waiting", count(waiting)), tile("KV blocks in use", blocks ? share(sum(workers, "kv_blocks_used") / blocks) : NONE));
    this.workers.fill(workers.map((one) => load(one, isShared, caller.may_drain ? housemates(one, workers) : null)));
    this.memory.fill(workers.map(memory));
    this.queues.fill(queues.map((queue) => [queue.scheduler, queue.model, count(queue.waiting)]));
    this.requests.fill(open.map((group) => [group.model, group.class, group.tenant, count(group.requests)]));
  }
}

function services(report) {
  const all = { gateway: report.status === "stopping" ? "stopping" : "ready", ...report.services };
  return h("ul", { class: "services" }, Object.entries(all).map(([name, state]) =>
    h("li", {}, h("span", { class: "dot", "data-state": state === "ready" ? "ready" : "waiting", "aria-hidden": "true" }), h("b", {}, name), h("span", { class: "muted" }, state))));
}

/** Ids of the other workers of the same process: addresses differ in what follows the slash. */
function housemates(one, workers) {
  const home = (worker) => worker.address?.split("/")[0];
  return workers.filter((other) => other.id !== one.id && home(one) && home(other) === home(one)).map((other) => other.id);
}

/** `others`: workers of the same process; null where the caller may drain none. */
function load(one, isShared, others) {
  const residence = isShared && one.residence ? one.residence.replaceAll("_", " ") : "";
  const state = h("span", { class: one.state === "ready" ? "tag" : "tag bad" }, one.state);
  const where = h("span", { class: "narrow muted small" }, [one.model, one.waiting && `${count(one.waiting)} waiting`].filter(Boolean).join(" · "));
  return [h("div", { class: "lines" }, one.id, where), one.model, h("div", { class: "lines" }, state, residence && h("span", { class: "muted small" }, residence)), count(one.running), count(one.waiting),
    count(one.sessions), count(one.credit), one.kv_blocks ? `${count(one.kv_blocks_used)} / ${count(one.kv_blocks)}` : NONE, one.kv_blocks ? meter(one.kv_usage, `KV blocks of ${one.id}`) : NONE,
    others && one.state === "ready" ? drainButton(one, others) : ""];
}

function memory(one) {
  const ratio = (part, of) => (of ? share(part / of) : NONE);
  return [one.id, ratio(one.cached_tokens, one.looked_up_tokens), ratio(one.accepted_tokens, one.draft_tokens), count(one.preemptions),
    bytes(one.weight_bytes), bytes(one.kv_bytes), bytes(one.resident_bytes)];
}

function meter(value, label) {
  return h("span", { class: "meter", role: "img", "aria-label": `${label}: ${share(value)} in use` }, h("span", { vars: { "--share": value } }));
}

function tile(name, value) {
  return h("section", { class: "panel tile" }, h("h2", {}, name), h("p", { class: "big" }, value));
}

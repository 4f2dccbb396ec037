// The last requests of the gateway, and one of them.

import { get, poll } from "./api.js";
import { copyButton, facts, failure, h, show, table } from "./dom.js";
import { clock, count, milliseconds, rate } from "./format.js";
import { waterfall } from "./waterfall.js";

const REFRESH_MS = 2000;
const LIMIT = 100;
const filters = { model: "", outcome: "", live: true };
const seen = { model: new Set(), outcome: new Set(["finished"]) };

export function requestsPage(main, signal, id) {
  if (id) requestPage(main, signal, id);
  else listPage(main, signal);
}

function listPage(main, signal) {
  const list = h("div", { class: "panel flush" }, h("p", { class: "muted empty" }, "Reading…"));
  let last = "";
  const read = async () => {
    const query = new URLSearchParams({ limit: LIMIT });
    for (const name of ["model", "outcome"]) if (filters[name]) query.set(name, filters[name]);
    try {
      const { data } = await get(`headrace/requests?${query}`);
      if (signal.aborted) return;
      note(data);
      const text = JSON.stringify(data);
      if (text !== last) show(list, table("Requests", COLUMNS, data.map(row), "No request yet. Send one from the chat or the playground."));
      last = text;
    } catch (error) {
      if (!signal.aborted) show(list, failure(error));
      last = "";
    }
  };
  const choose = (name, label) => {
    const select = h("select", { id: `filter-${name}`, on: { change: () => { filters[name] = select.value; read(); } } });
    const refill = () => {
      if (document.activeElement === select) return;
      show(select, [h("option", { value: "" }, "all"), ...[...seen[name]].sort().map((value) => h("option", { value }, value))]);
      select.value = filters[name];
    };
    refills.push(refill);
    refill();
    return h("div", { class: "field" }, h("label", { for: select.id }, label), select);
  };
  const refills = [];
  const note = (data) => {
    for (const record of data) for (const name of ["model", "outcome"]) if (record[name]) seen[name].add(record[name]);
    for (const refill of refills) refill();
  };
  const live = h("input", { type: "checkbox", id: "live", checked: filters.live, on: { change: () => { filters.live = live.checked; } } });
  show(main, h("div", { class: "page-head" }, h("h1", {}, "Requests"),
    h("div", { class: "row" }, choose("model", "Model"), choose("outcome", "Outcome"), h("label", { class: "check", for: "live" }, live, "Refresh"))), list);
  read();
  poll(async () => { if (filters.live) await read(); }, REFRESH_MS, signal);
}

const COLUMNS = [["Time"], ["Request"], ["Model"], ["Class"], ["Tenant"], ["Outcome"], ["Status", true], ["Tokens in", true], ["Tokens out", true], ["TTFT", true], ["Total", true]];

const nameOf = (record) => record.request_id || record.id;

function row(record) {
  const link = h("a", { href: `#/requests/${encodeURIComponent(nameOf(record))}`, "data-focus": nameOf(record) }, record.operation || record.route || "refused");
  return [clock(record.started), link, record.model || "–", record.class, record.tenant || "–", outcome(record), record.status || "–",
    count(record.prompt_tokens), count(record.output_tokens), milliseconds(record.ttft_ms), milliseconds(record.total_ms)];
}

function outcome(record) {
  return h("span", { class: record.outcome === "finished" ? "tag" : "tag bad" }, record.outcome);
}

async function requestPage(main, signal, id) {
  show(main, h("p", { class: "muted empty" }, "Reading…"));
  let record;
  try {
    record = await get(`headrace/requests/${encodeURIComponent(id)}`, signal);
  } catch (error) {
    if (!signal.aborted) show(main, back(), failure(error));
    return;
  }
  show(main, back(),
    h("div", { class: "page-head" }, h("h1", {}, `${record.operation || "Request"} ${record.model}`), outcome(record)),
    h("section", { class: "panel" }, h("h2", {}, "Where the time went"), waterfall(record)),
    h("section", { class: "panel" }, h("h2", {}, "Facts"), details(record)),
    h("section", { class: "panel" }, h("h2", {}, "In the terminal"), commands(record).map(command)));
}

const back = () => h("p", {}, h("a", { href: "#/requests" }, "All requests"));

function details(record) {
  return facts([
    ["Started", clock(record.started)], ["Total", milliseconds(record.total_ms)], ["First token", milliseconds(record.ttft_ms)],
    ["Decoding", rate(record.tokens_per_second)], ["Prompt tokens", `${count(record.prompt_tokens)} (${count(record.cached_tokens)} cached)`],
    ["Output tokens", count(record.output_tokens)], ["Finish", record.finish_reasons.join(", ")], ["HTTP status", record.status],
    ["Class", record.class], ["Tenant", record.tenant], ["Worker", record.worker], ["Attempts", record.attempts],
    ["Stream", record.stream ? "yes" : "no"], ["Response cache", record.response_cache], ["Route", `${record.api} ${record.route}`],
    ["Client's id", h("code", {}, record.id)], ["Request id", h("code", {}, record.request_id || "–")], ["Trace id", record.trace_id && h("code", {}, record.trace_id)],
  ]);
}

function commands(record) {
  const name = nameOf(record);
  return [`headrace trace ${name}`, ...(record.worker ? [`headrace explain ${name}`] : [])];
}

export function command(text) {
  return h("div", { class: "command" }, h("code", {}, text), copyButton("Copy", "Command", () => text));
}

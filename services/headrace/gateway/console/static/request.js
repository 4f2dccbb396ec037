// One request: why it took its time, or why it failed.

import { get } from "./api.js";
import { cachedTokens } from "./cached.js";
import { copyButton, facts, failure, h, show } from "./dom.js";
import { clock, count, milliseconds, rate } from "./format.js";
import { verdictOf } from "./verdict.js";
import { waterfall } from "./waterfall.js";

const LONGEST_WHOLE = 17;
const SHORTEST_MS = 200;

export const nameOf = (record) => record.request_id || record.id;

/** A path may break after each slash. */
export const breakable = (path) => path.split("/").flatMap((part, at) => (at ? ["/", h("wbr"), part] : [part]));

export function outcome(record) {
  // A long name may break after each of its words, and nowhere else.
  const words = record.outcome.length > LONGEST_WHOLE ? record.outcome.split("_").flatMap((word, at) => (at ? ["_", h("wbr"), word] : [word])) : record.outcome;
  return h("span", { class: record.outcome === "finished" ? "tag" : "tag bad" }, words);
}

export async function requestPage(main, signal, id) {
  show(main, h("p", { class: "muted empty" }, "Reading…"));
  let record;
  try {
    record = await get(`headrace/requests/${encodeURIComponent(id)}`, signal);
  } catch (error) {
    if (!signal.aborted) show(main, back(), failure(error));
    return;
  }
  const title = [record.operation || "Request", record.model || record.path].filter(Boolean).join(" ");
  show(main, back(),
    h("div", { class: "page-head" }, h("h1", {}, title), outcome(record)),
    h("p", { class: record.outcome === "finished" ? "verdict" : "verdict bad", id: "verdict" }, verdictOf(record)),
    h("section", { class: "panel" }, h("h2", {}, "Where the time went"), waterfall(record)),
    h("section", { class: "panel" }, h("h2", {}, "Facts"), details(record)),
    h("section", { class: "panel" }, h("h2", {}, "In the terminal"), commands(record).map(command)));
}

const back = () => h("p", {}, h("a", { href: "#/requests" }, "All requests"));

function details(record) {
  return facts([
    ["Started", clock(record.started)], ["Total", milliseconds(record.total_ms)], ["TTFT", milliseconds(record.ttft_ms)],
    ["Decoding", decodingRate(record)], ["Prompt tokens", count(record.prompt_tokens)], ["Cached", cachedTokens(record)],
    ["Output tokens", count(record.output_tokens)], ["Finish reason", record.finish_reasons.join(", ")], ["HTTP status", record.status],
    ["Class", record.class], ["Tenant", record.tenant], ["Worker", record.worker], ["Attempts", record.attempts],
    ["Stream", record.stream ? "yes" : "no"], ["Response cache", record.response_cache], ["Endpoint", record.api === "grpc" ? "gRPC" : breakable(record.path || record.route)], ["Gateway", record.gateway],
    ["Client's id", h("code", {}, record.id)], ["Request id", h("code", {}, record.request_id || "–")], ["Trace id", record.trace_id && h("code", {}, record.trace_id)],
  ]);
}

/** Tokens per second after the first. Null where they came too quickly to say. */
function decodingRate({ output_tokens: tokens, tokens_per_second: speed }) {
  return speed && ((tokens - 1) / speed) * 1000 >= SHORTEST_MS ? rate(speed) : null;
}

function commands(record) {
  const name = nameOf(record);
  return [`headrace trace ${name}`, ...(record.worker ? [`headrace explain ${name}`] : [])];
}

export function command(text) {
  return h("div", { class: "command" }, h("code", { tabindex: "0" }, text), copyButton("Copy", "Command", () => text));
}

// Why a request was slow, or why it failed, in one sentence.

import { count } from "./format.js";
import { longestOf } from "./stages.js";

const CLEAR_SHARE = 0.4;
const QUICK_MS = 50;

const SLOW = {
  receive: (record, spent) => `The request took ${spent} to arrive: the client or its network was slow.`,
  parse: (record, spent) => `Reading its JSON took ${spent}: the body is large.`,
  admission: (record, spent) => `Checking the model, the key and its limits took ${spent}.`,
  tokenize: (record, spent) => `Turning ${tokens(record.prompt_tokens, "prompt token")} from text took ${spent}.`,
  cache: (record, spent) => `Asking the response cache took ${spent}.`,
  lost: (record, spent) => `${spent} went into workers that were lost: it was placed ${count(record.attempts)} times.`,
  queue: (record, spent) => `It waited ${spent} in the queue: all workers of the model were full.`,
  dispatch: (record, spent) => `It spent ${spent} between gateway, scheduler and worker: their network or processors were busy.`,
  worker_queue: (record, spent) => `It waited ${spent} on its worker, which was busy with steps of other requests.`,
  prefill: (record, spent) => `Reading the prompt took ${spent}: ${tokens(record.prompt_tokens, "token")}, of which ${count(record.cached_tokens)} came from the cache.`,
  decode: (record, spent) => `Writing the answer took ${spent}: ${tokens(record.output_tokens, "token")}${speed(record)}.`,
  detokenize: (record, spent) => `Turning ${tokens(record.output_tokens, "token")} into text took ${spent}.`,
  guard: (record, spent) => `The filter's model took ${spent} to judge the text.`,
  serialize: (record, spent) => `Turning the answer into JSON took ${spent}.`,
  flush: (record, spent) => `The client took ${spent} to read the answer: it or its network was slow.`,
};

const DURING = {
  receive: "while the request arrived", parse: "while its JSON was read", admission: "while the model, the key and its limits were checked",
  tokenize: "while text became tokens", cache: "while the response cache was asked", lost: "after workers were lost", queue: "while it waited in the queue",
  dispatch: "on the way to a worker", worker_queue: "while it waited on its worker", prefill: "while the prompt was read",
  decode: "while the answer was written", detokenize: "while tokens became text", guard: "while the filter judged", serialize: "while text became JSON", flush: "while the client read the answer",
};

const REFUSED_BELOW = 500;

/** The sentence for a record of /headrace/requests. */
export function verdictOf(record) {
  if (record.outcome === "finished") return slowness(record);
  if (record.outcome === "open") return "It has not ended yet.";
  return failureOf(record);
}

function slowness(record) {
  const longest = longestOf(record);
  if (!longest) return "No stage was measured.";
  const [stage, spent] = longest;
  if (record.response_cache === "hit") return `The response cache had the answer: it took ${span(record.total_ms)}.`;
  if (record.total_ms < QUICK_MS) return `It took ${span(record.total_ms)}: nothing was slow.`;
  if (spent < CLEAR_SHARE * record.total_ms) return `No stage stands out: the longest, ${stage.replaceAll("_", " ")}, took ${part(spent, record)}.`;
  return (SLOW[stage] ?? ((_, time) => `${stage} took ${time}.`))(record, part(spent, record));
}

function failureOf(record) {
  const during = DURING[longestOf(record)?.[0]] ?? "";
  const reason = record.error ? `: ${sentence(record.error)}` : ".";
  if (record.outcome === "queue_timeout") return `It waited ${part(record.stages_ms.queue ?? record.total_ms, record)} in the queue and was given up: all workers of the model were full.`;
  if (record.outcome === "request_cancelled") return `The client left after ${span(record.total_ms)}${during && `, ${during}`}.`;
  if (record.outcome === "deadline_exceeded") return `Its time ran out after ${span(record.total_ms)}, most of it ${during || "before it was placed"}.`;
  if (record.status > 0 && record.status < REFUSED_BELOW) return `It was refused with status ${record.status}${reason}`;
  return `It failed after ${span(record.total_ms)}${during && `, ${during}`}${reason}`;
}

const part = (spent, record) => `${span(spent)} of ${span(record.total_ms)}`;
const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);
const tokens = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const speed = (record) => (record.tokens_per_second ? ` at ${record.tokens_per_second.toFixed(record.tokens_per_second < 10 ? 1 : 0)} tokens/s` : "");

/** A duration as people say it. */
export function span(ms) {
  if (ms === null || ms === undefined) return "an unknown time";
  if (ms < 1) return "less than 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(1)} s`;
}

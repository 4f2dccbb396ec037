// One answer while it arrives: what the events add to it, and when.

import { get, request, stream } from "./api.js";

const SHORTEST_MS = 20;
const RECORD_TRIES = 12;
const RECORD_WAIT_MS = 150;

export class Answer {
  constructor() {
    Object.assign(this, { text: "", reasoning: "", calls: [], tokens: [], raw: [], finish: null, usage: null, timings: null, error: null,
      id: "", requestId: "", started: performance.now(), firstMs: null, lastMs: null, wallMs: null, stopped: false, record: null });
  }

  /** Milliseconds since the request was sent. */
  elapsed() {
    return performance.now() - this.started;
  }

  /** Tokens per second after the first, as this browser saw them; null where all came at once. */
  get seenRate() {
    const tokens = this.usage?.completion_tokens;
    return tokens > 1 && this.lastMs - this.firstMs > SHORTEST_MS ? ((tokens - 1) / (this.lastMs - this.firstMs)) * 1000 : null;
  }

  add(data) {
    this.raw.push([this.elapsed(), data]);
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    this.id ||= chunk.id ?? "";
    this.usage = chunk.usage ?? this.usage;
    this.timings = chunk.timings ?? this.timings;
    for (const choice of chunk.choices ?? []) this.addChoice(choice);
  }

  addChoice({ delta = {}, text, logprobs, finish_reason: finish }) {
    const said = text || delta.content || delta.reasoning_content || delta.reasoning || delta.tool_calls;
    if (said) {
      this.lastMs = this.elapsed();
      this.firstMs ??= this.lastMs;
    }
    this.text += text ?? delta.content ?? "";
    this.reasoning += delta.reasoning_content ?? delta.reasoning ?? "";
    this.tokens.push(...(logprobs?.content ?? []));
    this.finish = finish ?? this.finish;
    for (const call of delta.tool_calls ?? []) this.addCall(call);
  }

  addCall({ index, id, function: called }) {
    this.calls[index] ??= { id, type: "function", function: { name: called.name, arguments: "" } };
    this.calls[index].function.arguments += called.arguments ?? "";
  }
}

/** Sends a chat, or a completion, and yields its answer after each event. `signal` stops it. */
export const ask = (body, urgency, signal, path = "v1/chat/completions") => answers(() => request("POST", path, body, signal, urgency === "default" ? {} : { "x-headrace-class": urgency }), signal);

/** Reads a stream that was begun before, by the id of its answer, from its first event on. */
export const resume = (id, signal) => answers(() => request("GET", `headrace/streams/${encodeURIComponent(id)}`, undefined, signal), signal);

async function* answers(open, signal) {
  const answer = new Answer();
  try {
    const response = await open();
    answer.requestId = response.headers.get("x-request-id") ?? "";
    for await (const data of stream(response, signal)) {
      answer.add(data);
      yield answer;
    }
  } catch (error) {
    if (signal.aborted) answer.stopped = true;
    else answer.error = error;
  }
  answer.wallMs = answer.elapsed();
  yield answer;
}

/** Finds the record of a request, which is there a moment after the last byte; null if another gateway has it. */
export async function findRecord(id, signal) {
  for (let tries = 0; id && tries < RECORD_TRIES && !signal.aborted; tries += 1) {
    const { data } = await get("headrace/requests?limit=50").catch(() => ({ data: [] }));
    const record = data.find((one) => one.id === id);
    if (record) return record;
    await new Promise((resolve) => setTimeout(resolve, RECORD_WAIT_MS));
  }
  return null;
}

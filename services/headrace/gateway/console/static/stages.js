// The stages of a request, in the order in which it reaches them, and what happens in each.

export const MEANINGS = {
  receive: "the request arrives",
  parse: "JSON is read and checked",
  admission: "model, key, limits",
  tokenize: "text becomes tokens",
  cache: "the response cache is asked",
  lost: "attempts on workers that were lost",
  queue: "waiting in the scheduler's queue",
  dispatch: "between gateway, scheduler and worker",
  worker_queue: "waiting for a step of the worker",
  prefill: "the prompt is read, to the first token",
  decode: "waiting for further tokens",
  detokenize: "tokens become text",
  guard: "the filter's model judges what is said",
  serialize: "text becomes JSON",
  flush: "the client takes the bytes",
};

/** The stage that took longest, and its milliseconds. Null without stages. */
export function longestOf(record) {
  const stages = Object.entries(record.stages_ms ?? {});
  return stages.length ? stages.reduce((most, stage) => (stage[1] > most[1] ? stage : most)) : null;
}

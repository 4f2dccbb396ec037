// Words for the prompt tokens whose keys and values were there, and for where they were.

import { count } from "./format.js";

const PLACES = { memory: "in the worker's memory", disk: "on its disk", worker: "with another worker", store: "in the shared store" };

/** Says how many of a record's prompt tokens were cached, and where those were that did not come from memory alone. */
export function cachedTokens(record) {
  const places = Object.entries(record.cached_tokens_from ?? {}).filter(([, number]) => number);
  const total = count(record.cached_tokens);
  if (places.every(([place]) => place === "memory")) return total;
  return `${total}: ${places.map(([place, number]) => `${count(number)} ${PLACES[place] ?? place}`).join(", ")}`;
}

// Which of many requests are shown, and in which order.

export const SORTS = {
  newest: ["Newest", (record) => record.started],
  ttft: ["Slowest first token", (record) => record.ttft_ms],
  total: ["Longest in total", (record) => record.total_ms],
  tokens: ["Most tokens", (record) => record.prompt_tokens + record.output_tokens],
};
export const RANGES = { "": "Any time", 300: "Last 5 minutes", 900: "Last 15 minutes", 3600: "Last hour", 86400: "Last day" };

const SEARCHED = ["id", "request_id", "model", "path", "route", "operation", "tenant", "error", "outcome", "worker", "status"];

/** Records that hold each word of `text`, have the model and the outcome, and began within `range` seconds before `now`; as `sort` says. */
export function search(records, { text = "", model = "", outcome = "", range = "", sort = "newest" }, now) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const since = range ? now - Number(range) : -Infinity;
  const found = records.filter((record) => (!model || record.model === model) && (!outcome || record.outcome === outcome) && record.started >= since && holds(record, words));
  const rank = (SORTS[sort] ?? SORTS.newest)[1];
  return found.sort((one, other) => (rank(other) ?? -1) - (rank(one) ?? -1) || other.started - one.started);
}

function holds(record, words) {
  if (!words.length) return true;
  const text = SEARCHED.map((name) => record[name] ?? "").join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

// The last hour as lines: one figure of one model, or of all of them together.

const SUMMED = new Set(["requests_per_second", "tokens_per_second", "running", "queued"]);

export const modelsOf = (history) => Object.keys(history.models);

/** The values of a figure, one for each time; null where there is none. Without a model, rates and numbers are summed and the others averaged: waits by requests. */
export function trend(history, figure, model = "") {
  const models = model ? [history.models[model]].filter(Boolean) : Object.values(history.models);
  return history.times.map((_, at) => together(models, figure, at));
}

function together(models, figure, at) {
  const there = models.filter((one) => one[figure][at] !== null && one[figure][at] !== undefined);
  if (!there.length) return null;
  if (SUMMED.has(figure)) return there.reduce((sum, one) => sum + one[figure][at], 0);
  const weightOf = (one) => (figure.startsWith("ttft") ? one.requests_per_second[at] || 1e-9 : 1);
  const weight = there.reduce((sum, one) => sum + weightOf(one), 0);
  return there.reduce((sum, one) => sum + one[figure][at] * weightOf(one), 0) / weight;
}

/** The last, the largest and the mean of the values that are there. Null without any. */
export function summary(values) {
  const there = values.filter((value) => value !== null);
  if (!there.length) return null;
  return { last: values.at(-1), most: Math.max(...there), mean: there.reduce((sum, value) => sum + value, 0) / there.length };
}

/** Runs of points without a gap, as places from 0 to 1: time from left to right, value from the bottom up. */
export function runs(times, values, from, to, top) {
  const found = [];
  let open = null;
  values.forEach((value, at) => {
    if (value === null) { open = null; return; }
    if (!open) found.push((open = []));
    open.push([(times[at] - from) / (to - from), value / top]);
  });
  return found;
}

/** A number at least as large as `value` that is easy to read: 1, 2 or 5 times a power of ten. */
export function roundUp(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999) ?? value;
}

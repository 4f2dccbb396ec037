// A chart of lines over time, with its numbers as text for whoever does not see it.

import { h, svg } from "./dom.js";
import { roundUp, runs, summary } from "./trend.js";

const WIDTH = 300;
const HEIGHT = 80;
const LEAST_SECONDS = 300;

/** `series`: pairs of a name and values; `write`: a value as text; `top`: the value at the upper edge, if that is fixed. */
export function chart(title, times, series, write, top = 0) {
  const drawn = series.map(([name, values]) => ({ name, values, sum: summary(values) }));
  const most = top || roundUp(Math.max(0, ...drawn.map(({ sum }) => sum?.most ?? 0)));
  const to = times.at(-1);
  const from = Math.min(times[0], to - LEAST_SECONDS);
  const text = `${title}, ${span(to - from)}. ${drawn.map((one) => told(one, write, series.length > 1)).join(" ")}`;
  return h("figure", { class: "panel chart-figure" },
    h("figcaption", {}, h("h3", {}, title), h("ul", { class: "chart-now" }, drawn.map(({ name, sum }, at) =>
      h("li", {}, h("span", { class: `chart-mark line-${at}`, "aria-hidden": "true" }), series.length > 1 && h("span", { class: "muted" }, `${name} `), h("b", {}, sum?.last === null || !sum ? "–" : write(sum.last)))))),
    h("div", { class: "chart-plot" }, h("span", { class: "chart-top muted", "aria-hidden": "true" }, write(most)),
      svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": text },
        [0, 0.5, 1].map((height) => svg("path", { class: "chart-grid", d: `M0,${(1 - height) * HEIGHT}H${WIDTH}` })),
        drawn.flatMap(({ values }, at) => runs(times, values, from, to, most).map((points) => line(points, at))))),
    h("p", { class: "chart-ends muted", "aria-hidden": "true" }, h("span", {}, `${Math.round((to - from) / 60)} min ago`), h("span", {}, "now")));
}

function line(points, at) {
  const place = ([x, y]) => `${(x * WIDTH).toFixed(1)},${(HEIGHT - Math.min(1, y) * (HEIGHT - 2) - 1).toFixed(1)}`;
  // A line from a single point to itself is its round end: a dot.
  const shown = points.length > 1 ? points : [points[0], points[0]];
  return svg("polyline", { class: `chart-line line-${at}${points.length > 1 ? "" : " chart-dot"}`, points: shown.map(place).join(" ") });
}

function told({ name, sum }, write, isNamed) {
  const before = isNamed ? `${name}: ` : "";
  if (!sum) return `${before}no value.`;
  return `${before}${sum.last === null ? "none now" : `${write(sum.last)} now`}, ${write(sum.most)} at most, ${write(sum.mean)} on average.`;
}

const span = (seconds) => `the last ${Math.round(seconds / 60)} minutes`;

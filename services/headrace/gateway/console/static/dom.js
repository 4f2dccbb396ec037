// Elements from plain calls. Text is always text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element. `on` holds listeners, `vars` CSS custom properties; everything else is an attribute. */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "vars") for (const [key, held] of Object.entries(value)) element.style.setProperty(key, held);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

/** Replaces the content of an element, and gives the focus back to the control with the same data-focus. */
export function show(element, ...children) {
  const held = element.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (held) element.querySelector(`[data-focus="${CSS.escape(held)}"]`)?.focus();
}

export function announce(text) {
  const notice = document.getElementById("notice");
  notice.textContent = text;
  notice.dataset.shown = "yes";
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => { notice.dataset.shown = "no"; }, 2500);
}

/** Puts text on the clipboard; where a browser refuses, as it does without TLS, by way of a selection. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "offscreen", value: text, "aria-label": "Text to copy" });
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(`${what} copied`);
}

export function copyButton(label, what, text) {
  return h("button", { type: "button", class: "quiet small", on: { click: () => copy(text(), what) } }, label);
}

const kindOf = ([, isNumber, kind]) => [isNumber && "number", kind].filter(Boolean).join(" ") || null;

export const tableHead = (columns) => h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: kindOf(column) }, column[0]))));

export const tableRow = (columns, cells) => h("tr", {}, cells.map((cell, at) => h("td", { class: kindOf(columns[at]) }, cell)));

/** A table that scrolls by itself where the window is narrow. Columns: [title, isNumber, class]. */
export function table(label, columns, rows, empty) {
  if (!rows.length) return h("p", { class: "muted empty" }, empty);
  return h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0", "data-focus": label },
    h("table", {}, tableHead(columns), h("tbody", {}, rows.map((cells) => tableRow(columns, cells)))));
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value, title]) => h("div", { title }, h("dt", {}, name), h("dd", {}, value))));
}

export function failure(error) {
  return h("p", { class: "failure", role: "alert" }, error.message);
}

// The last requests: searched, sorted, and by time.

import { poll } from "./api.js";
import { failure, h, show, table } from "./dom.js";
import { clock, count, milliseconds } from "./format.js";
import { Records } from "./records.js";
import { breakable, nameOf, outcome, requestPage } from "./request.js";
import { RANGES, SORTS, search } from "./search.js";

const REFRESH_MS = 2000;
const SHOWN = 100;
const chosen = { text: "", model: "", outcome: "", range: "", sort: "newest", live: true };

export function requestsPage(main, signal, id) {
  if (id) requestPage(main, signal, id);
  else new RequestList(main, signal).open();
}

/** Columns: [title, isNumber, kind]; a phone shows the kind `wide` in another cell. */
const COLUMNS = [["Time", false, "wide"], ["Request"], ["Model", false, "wide"], ["Class", false, "wide"], ["Tenant", false, "wide"], ["Outcome"], ["Status", true, "wide"], ["Tokens in", true, "wide"], ["Tokens out", true, "wide"], ["TTFT", true, "wide"], ["Total", true]];

class RequestList {
  constructor(main, signal) {
    Object.assign(this, { main, signal, records: new Records(), last: "" });
    this.list = h("div", { class: "panel flush" }, h("p", { class: "muted empty" }, "Reading…"));
    this.found = h("p", { class: "muted small", role: "status" });
    this.model = this.select("model", "Model", {});
    this.outcome = this.select("outcome", "Outcome", {});
  }

  open() {
    const text = h("input", { id: "search", type: "search", value: chosen.text, placeholder: "Id, model, path, tenant, error", autocomplete: "off", spellcheck: "false", "data-shortcut": "compose", on: { input: () => { chosen.text = text.value; this.draw(); } } });
    const live = h("input", { type: "checkbox", id: "live", checked: chosen.live, on: { change: () => { chosen.live = live.checked; } } });
    const sorts = Object.fromEntries(Object.entries(SORTS).map(([name, [title]]) => [name, title]));
    show(this.main, h("div", { class: "page-head" }, h("h1", {}, "Requests"), h("label", { class: "check", for: "live" }, live, "Auto-refresh")),
      h("div", { class: "filters", role: "search" }, field("search", "Search", text), this.model, this.outcome, this.select("range", "Started", RANGES), this.select("sort", "Sort by", sorts)), this.list, this.found);
    poll(async () => { if (chosen.live || !this.records.known.size) await this.read(); }, REFRESH_MS, this.signal);
  }

  select(name, label, options) {
    const control = h("select", { id: `filter-${name}`, on: { change: () => { chosen[name] = control.value; this.draw(); } } });
    fillSelect(control, Object.entries(options), chosen[name]);
    return field(control.id, label, control);
  }

  async read() {
    try {
      await this.records.read();
      if (!this.signal.aborted) this.draw();
    } catch (error) {
      if (!this.signal.aborted) show(this.list, failure(error));
      this.last = "";
    }
  }

  draw() {
    const all = this.records.list;
    for (const name of ["model", "outcome"]) this.refill(name, all);
    const records = search(all, chosen, Date.now() / 1000);
    const text = records.slice(0, SHOWN).map((record) => `${record.request_id} ${record.started}`).join();
    // While the mouse is down, nothing moves away under it.
    if ((text === this.last && this.list.querySelector("table")) || this.list.matches(":active")) return;
    this.last = text;
    show(this.list, table("Requests", COLUMNS, records.slice(0, SHOWN).map(row), all.length ? "No request is like that." : "No request yet. Send one from the chat or the playground."));
    this.found.textContent = all.length ? foundText(records.length, all.length) : "";
  }

  refill(name, records) {
    const select = this[name].querySelector("select");
    if (document.activeElement === select) return;
    const values = [...new Set([...records.map((record) => record[name]), chosen[name]])].filter(Boolean).sort();
    if (select.length === values.length + 1) return;
    fillSelect(select, [["", "all"], ...values.map((value) => [value, value])], chosen[name]);
  }
}

const field = (id, label, control) => h("div", { class: "field" }, h("label", { for: id }, label), control);

function fillSelect(select, options, value) {
  // Names that look like numbers would come first.
  const ordered = [...options].sort(([one], [other]) => Number(one !== "") - Number(other !== ""));
  show(select, ordered.map(([key, title]) => h("option", { value: key }, title)));
  select.value = value;
}

function foundText(found, all) {
  const whole = found === all ? `${count(all)} request${all === 1 ? "" : "s"} kept.` : `${count(found)} of ${count(all)} kept requests.`;
  return found > SHOWN ? `${whole} The first ${SHOWN} are shown.` : whole;
}

function row(record) {
  const title = record.operation || record.path || record.route || "refused";
  const link = h("a", { href: `#/requests/${encodeURIComponent(nameOf(record))}`, "data-focus": nameOf(record) }, breakable(title));
  const where = h("span", { class: "narrow muted small" }, [clock(record.started), record.model].filter(Boolean).join(" · "));
  const reason = record.error && h("span", { class: "reason muted small" }, record.operation && !record.model ? `${record.path}: ${record.error}` : record.error);
  return [clock(record.started), h("div", { class: "lines" }, link, where, reason), record.model || "–", record.class, record.tenant || "–",
    h("div", { class: "lines" }, outcome(record), h("span", { class: "narrow muted small" }, record.status ? `status ${record.status}` : "")), record.status || "–",
    count(record.prompt_tokens), count(record.output_tokens), milliseconds(record.ttft_ms), milliseconds(record.total_ms)];
}

// A table whose rows change and whose head stays, with what is focused or scrolled in it.

import { h, show, tableHead, tableRow } from "./dom.js";

export class LiveTable {
  /** Columns as `table` has them; `empty`: said where there are no rows. */
  constructor(label, columns, empty) {
    this.columns = columns;
    this.body = h("tbody", {});
    this.none = h("p", { class: "muted empty" }, empty);
    this.region = h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0", "data-focus": label }, h("table", {}, tableHead(columns), this.body));
    this.element = h("div", {}, this.none, this.region);
    this.fill([]);
  }

  fill(rows) {
    this.none.hidden = rows.length > 0;
    this.region.hidden = rows.length === 0;
    // While the mouse is down, nothing moves away under it.
    if (!this.body.matches(":active")) show(this.body, rows.map((cells) => tableRow(this.columns, cells)));
  }
}

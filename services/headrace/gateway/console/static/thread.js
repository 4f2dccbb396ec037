// The messages of a talk, one below the other; several answers to one message side by side.

import { h } from "./dom.js";
import { AnswerTurn, UserTurn } from "./turn.js";

export class Thread {
  constructor(actions) {
    Object.assign(this, { actions, turns: new Map(), rows: new Map() });
    this.element = h("div", { class: "thread" });
  }

  turn(node) {
    const held = this.turns.get(node.id);
    if (held?.node === node) return held;
    const made = node.role === "user" ? new UserTurn(node, this.actions) : new AnswerTurn(node, this.actions);
    this.turns.set(node.id, made);
    return made;
  }

  draw() {
    const { conversation } = this.actions.talk;
    const focus = this.element.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
    const shown = conversation.path().map((node) => this.row(node, conversation.versions(node).find((group) => group.includes(node))));
    arrange(this.element, shown);
    if (focus && !this.element.contains(document.activeElement)) this.focus(focus);
  }

  /** Gives the focus to the control that took the place of another, or to its neighbor where that can do nothing. */
  focus(name) {
    const control = this.element.querySelector(`[data-focus="${CSS.escape(name)}"]`);
    const usable = control?.disabled ? control.parentNode.querySelector("button:not(:disabled)") : control;
    usable?.focus({ preventScroll: true });
  }

  row(node, group) {
    const turns = group.map((one) => this.turn(one));
    turns.forEach((turn) => turn.refresh());
    if (group.length === 1) return turns[0].element;
    const row = this.rows.get(node.group) ?? h("div", { class: "columns" });
    this.rows.set(node.group, row);
    arrange(row, turns.map((turn) => turn.element));
    return row;
  }

  refresh(node) {
    this.turns.get(node.id)?.refresh();
  }

  refreshAll() {
    for (const turn of this.turns.values()) if (turn.element.isConnected) turn.refresh();
  }
}

/** Makes nodes the children of an element, and leaves alone those that are. */
function arrange(parent, nodes) {
  nodes.forEach((node, at) => { if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null); });
  while (parent.children.length > nodes.length) parent.lastChild.remove();
}

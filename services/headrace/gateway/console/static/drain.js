// Takes a worker away, after it is said what happens.

import { ask } from "./api.js";
import { announce, failure, h, show } from "./dom.js";
import { count } from "./format.js";

const PATIENCE_MS = 30_000;
const LONGEST_SECONDS = 86_400;

/** `others`: ids of the workers of the same process, which end with it. */
export function drainButton(worker, others) {
  return h("button", { type: "button", class: "quiet small", "data-focus": `drain-${worker.id}`, "aria-label": `Drain ${worker.id}`, on: { click: () => openDrain(worker, others) } }, "Drain");
}

function openDrain(worker, others) {
  const patience = h("input", { id: "drain-patience", type: "number", min: "0", max: String(LONGEST_SECONDS), step: "1", value: "0" });
  const said = h("div", {});
  const confirm = h("button", { type: "submit", class: "primary", id: "drain-confirm" }, "Drain");
  const cancel = h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Cancel");
  let force = false;
  const submit = async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    try {
      const told = await ask("POST", `headrace/workers/${encodeURIComponent(worker.id)}/drain`, { patience_seconds: Number(patience.value) || 0, force }, AbortSignal.timeout(PATIENCE_MS));
      dialog.close();
      announce(`${worker.id} drains: ${requests(told.sessions)} left`);
    } catch (error) {
      show(said, failure(error), error.param === "force" && h("p", { class: "small" }, "If you drain it anyway, requests for this model wait until another worker serves it, and fail when their time runs out."));
      force = error.param === "force";
      confirm.textContent = force ? "Drain anyway" : "Drain";
      confirm.className = force ? "quiet danger" : "primary";
      confirm.disabled = false;
    }
  };
  const dialog = h("dialog", { id: "drain-dialog", "aria-labelledby": "drain-title", on: { close: () => { dialog.remove(); document.querySelector(`[data-focus="${CSS.escape(`drain-${worker.id}`)}"]`)?.focus(); } } },
    h("form", { method: "dialog", on: { submit } }, h("h2", { id: "drain-title" }, `Drain ${worker.id}`),
      h("p", {}, `It accepts no new requests${worker.sessions ? `. Its ${requests(worker.sessions)} of ${worker.model} continue on other workers, with the same tokens` : "; none are running"}. Then its process exits.`),
      others.length > 0 && h("p", {}, `${others.join(", ")} ${others.length > 1 ? "are" : "is"} of the same process, and ${others.length > 1 ? "end" : "ends"} with it.`),
      h("p", { class: "muted small" }, "headrace up and Kubernetes start the process again, so there draining is a restart."),
      h("div", { class: "field" }, h("label", { for: "drain-patience" }, "Seconds to let running requests finish here"), patience), said,
      h("div", { class: "row end" }, cancel, confirm)));
  document.body.append(dialog);
  dialog.showModal();
}

const requests = (number) => `${count(number)} request${number === 1 ? "" : "s"}`;

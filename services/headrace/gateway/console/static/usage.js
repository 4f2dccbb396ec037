// What keys used, and the keys themselves for whoever may change them.

import { ask, get, platform } from "./api.js";
import { announce, copyButton, failure, h, show, table } from "./dom.js";
import { count, day } from "./format.js";
import { command } from "./request.js";

const GROUPS = { key: "Key", model: "Model", day: "Day", tenant: "Tenant" };
const chosen = { by: "model", since: "" };

export function usagePage(main, signal) {
  const sums = h("div", {}, h("p", { class: "muted empty" }, "Reading…"));
  const keys = h("div", {}, h("p", { class: "muted empty" }, "Reading…"));
  const read = () => readUsage(sums, signal);
  const by = h("select", { id: "usage-by", on: { change: () => { chosen.by = by.value; read(); } } }, Object.keys(GROUPS).map((name) => h("option", { value: name }, name)));
  by.value = chosen.by;
  const since = h("input", { id: "usage-since", type: "date", value: chosen.since, on: { change: () => { chosen.since = since.value; read(); } } });
  show(main, h("div", { class: "page-head" }, h("h1", {}, "Keys and usage"),
    h("div", { class: "row" }, h("div", { class: "field" }, h("label", { for: "usage-by" }, "By"), by), h("div", { class: "field" }, h("label", { for: "usage-since" }, "Since"), since))),
  h("section", { class: "panel flush" }, h("h2", {}, "Usage"), sums), h("section", { class: "panel flush" }, h("h2", {}, "Keys"), keys));
  read();
  readKeys(keys, signal);
}

async function readUsage(place, signal) {
  const query = new URLSearchParams({ by: chosen.by, ...(chosen.since ? { since: chosen.since } : {}) });
  try {
    const { data } = await get(`headrace/usage?${query}`, signal);
    if (!signal.aborted) show(place, sumsTable(data));
  } catch (error) {
    if (!signal.aborted) show(place, failure(error));
  }
}

function sumsTable(data) {
  const most = Math.max(1, ...data.map((one) => one.prompt_tokens + one.output_tokens));
  const columns = [[GROUPS[chosen.by]], ["Requests", true], ["Finished", true, "wide"], ["Prompt tokens", true, "wide"], ["Cached", true, "wide"], ["Output tokens", true, "wide"], ["Tokens"]];
  const rows = data.map((one) => {
    const all = one.prompt_tokens + one.output_tokens;
    const bar = h("span", { class: "stackbar", role: "img", "aria-label": `${count(all)} tokens` },
      h("span", { class: "in", vars: { "--share": one.prompt_tokens / most } }), h("span", { class: "out", vars: { "--share": one.output_tokens / most } }));
    const tokens = h("span", { class: "narrow muted small" }, `${count(one.prompt_tokens)} in, ${count(one.output_tokens)} out`);
    return [h("div", { class: "lines" }, one[chosen.by] || "no key", tokens), count(one.requests), count(one.finished), count(one.prompt_tokens), count(one.cached_tokens), count(one.output_tokens), bar];
  });
  return [table("Usage", columns, rows, "Nothing has been used yet."),
    data.length > 0 && h("p", { class: "legend muted small" }, h("span", { class: "swatch in" }), "prompt", h("span", { class: "swatch out" }), "output; days are in UTC")];
}

async function readKeys(place, signal, made = null) {
  if (!platform.needsKey) {
    show(place, h("div", { class: "inset" }, h("p", {}, "This platform requires no API key. To require API keys, create one. It takes effect immediately:"),
      command("headrace keys create me --scope generate --scope embed --scope admin")));
    return;
  }
  try {
    const { caller } = await get("headrace/fleet", signal);
    if (!caller.scopes.includes("admin")) {
      show(place, h("div", { class: "inset" }, h("p", {}, `Your key ${caller.key} belongs to ${caller.tenant} and has the scopes ${caller.scopes.join(", ")}. Keys are listed for a key with the scope admin:`),
        command("headrace keys create ADMIN --scope admin")));
      return;
    }
    const { data } = await get("headrace/keys", signal);
    if (!signal.aborted) show(place, made && shownOnce(made), keysTable(data, caller.key, (next) => readKeys(place, signal, next)), creation((next) => readKeys(place, signal, next)));
  } catch (error) {
    if (!signal.aborted) show(place, failure(error));
  }
}

function shownOnce(made) {
  return h("div", { class: "inset made", role: "status" }, h("p", {}, h("b", {}, `Key of ${made.name}.`), " It is shown this once: copy it now."),
    h("div", { class: "command" }, h("code", { id: "made-key" }, made.key), copyButton("Copy", "Key", () => made.key)));
}

function keysTable(data, own, again) {
  const columns = [["Name"], ["Id"], ["Tenant"], ["State"], ["Scopes"], ["Models"], ["Limits"], ["Created"], ["Expires"], [h("span", { class: "offscreen" }, "Actions")]];
  return table("Keys", columns, [...data].reverse().map((key) => [key.name, h("code", {}, key.id), key.tenant, h("span", { class: key.state === "valid" ? "tag" : "tag bad" }, key.state),
    key.scopes.join(", "), key.models.join(", ") || "all", limits(key), day(key.created), key.expires ? day(key.expires) : "never",
    key.state === "valid" ? revokeButton(key, own, again) : ""]), "There are no keys.");
}

function limits(key) {
  const given = Object.entries(key.limits).filter(([, value]) => value !== null);
  return given.map(([name, value]) => `${count(value)} ${name.replaceAll("_", " ")}`).join(", ") || "none";
}

/** Asks once more in place: ending a key cannot be undone. */
function revokeButton(key, own, again) {
  let timer;
  const button = h("button", { type: "button", class: "quiet small", "data-focus": `revoke-${key.id}`, "aria-label": `Revoke ${key.name}` }, "Revoke");
  const calm = () => { button.textContent = "Revoke"; button.classList.remove("danger"); };
  button.addEventListener("click", async () => {
    if (!button.classList.contains("danger")) {
      button.classList.add("danger");
      button.textContent = key.id === own ? "Revoke your own?" : "Really revoke?";
      timer = setTimeout(calm, 4000);
      return;
    }
    clearTimeout(timer);
    button.disabled = true;
    try {
      await ask("DELETE", `headrace/keys/${key.id}`);
      announce(`Key of ${key.name} revoked`);
      again(null);
    } catch (error) {
      announce(error.message);
      button.disabled = false;
      calm();
    }
  });
  return button;
}

const UNITS = { "": null, "1 day": 86400, "30 days": 30 * 86400, "90 days": 90 * 86400, "1 year": 365 * 86400 };

function creation(again) {
  const field = (id, label, control) => h("div", { class: "field" }, h("label", { for: id }, label), control);
  const name = h("input", { id: "new-name", required: true, maxlength: "64", placeholder: "alice", autocomplete: "off" });
  const tenant = h("input", { id: "new-tenant", maxlength: "64", placeholder: "the name", autocomplete: "off" });
  const lifetime = h("select", { id: "new-lifetime" }, Object.keys(UNITS).map((text) => h("option", { value: text }, text || "never")));
  const perMinute = h("input", { id: "new-rpm", type: "number", min: "1", placeholder: "no limit" });
  const perDay = h("input", { id: "new-tpd", type: "number", min: "1", placeholder: "no limit" });
  const scopes = ["generate", "embed", "admin"].map((scope) => h("input", { type: "checkbox", id: `new-${scope}`, value: scope, checked: scope !== "admin" }));
  const said = h("div", {});
  const submit = async (event) => {
    event.preventDefault();
    const number = (input) => (input.value ? Number(input.value) : null);
    const body = { name: name.value.trim(), tenant: tenant.value.trim(), scopes: scopes.filter((box) => box.checked).map((box) => box.value),
      lifetime_seconds: UNITS[lifetime.value], limits: { requests_per_minute: number(perMinute), tokens_per_day: number(perDay) } };
    try {
      again(await ask("POST", "headrace/keys", body));
    } catch (error) {
      show(said, failure(error));
    }
  };
  return h("form", { class: "inset creation", on: { submit } }, h("h3", {}, "New key"),
    h("div", { class: "row wrap" }, field("new-name", "Name", name), field("new-tenant", "Tenant", tenant), field("new-lifetime", "Expires after", lifetime),
      field("new-rpm", "Requests per minute", perMinute), field("new-tpd", "Tokens per day", perDay)),
    h("fieldset", { class: "row" }, h("legend", {}, "Scopes"), scopes.map((box) => h("label", { class: "check", for: box.id }, box, box.value))),
    said, h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Create key")));
}

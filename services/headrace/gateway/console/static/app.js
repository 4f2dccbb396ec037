// The shell: pages by the part of the address after #, the key, the color scheme, the keyboard.

import { keepKey, lacksKey, platform, poll, readKey } from "./api.js";
import { chatPage } from "./chat.js";
import { h, show } from "./dom.js";
import { fleetPage } from "./fleet.js";
import { playgroundPage } from "./playground.js";
import { requestsPage } from "./requests.js";
import { describeTheme, nextTheme } from "./scheme.js";
import { usagePage } from "./usage.js";

const PAGES = { chat: chatPage, playground: playgroundPage, requests: requestsPage, fleet: fleetPage, usage: usagePage };
const TITLES = { chat: "Chat", playground: "Playground", requests: "Requests", fleet: "Fleet", usage: "Keys and usage" };
const HEALTH_MS = 3000;
const element = (name) => document.getElementById(name);
const main = element("main");
let leaving = new AbortController();

function route() {
  const [page, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const name = page in PAGES ? page : "chat";
  leaving.abort();
  leaving = new AbortController();
  for (const link of element("nav").children) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[name]} · Headrace`;
  main.className = `page-${name}`;
  show(main, lacksKey() ? locked() : []);
  if (!lacksKey()) PAGES[name](main, leaving.signal, rest.map(decodeURIComponent).join("/"));
}

function locked() {
  return h("section", { class: "panel locked" }, h("h1", {}, "A key is needed"),
    h("p", { class: "muted" }, "This platform requires an API key. Its operator creates one with ", h("code", {}, "headrace keys create NAME"), "."),
    h("button", { type: "button", class: "primary", on: { click: () => openKey() } }, "Enter a key"));
}

function openKey(reason = "") {
  element("key-lead").textContent = reason || (platform.needsKey ? "This platform requires an API key." : "This platform needs no key.");
  element("key-field").value = readKey();
  if (!element("key-dialog").open) element("key-dialog").showModal();
}

function useKey(text) {
  keepKey(text);
  element("key-dialog").close();
  describeKey();
  route();
}

function describeKey() {
  const id = readKey().split("-")[1];
  show(element("key-button"), "Key", id && h("span", { class: "key-id" }, ` ${id}`));
  element("key-button").hidden = !platform.needsKey && !readKey();
}

async function readHealth() {
  let report = null;
  try {
    report = await (await fetch("ready", { signal: AbortSignal.timeout(HEALTH_MS) })).json();
  } catch {
    report = null;
  }
  element("health").dataset.state = report === null ? "away" : report.status === "ready" ? "ready" : "waiting";
  element("health-text").textContent = report?.status ?? "not reachable";
  if (report) platform.needsKey = report.keys !== "none needed";
  return report;
}

function onKey(event) {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (target.matches?.("input, textarea, select, [contenteditable]")) return;
  const pages = Object.keys(PAGES);
  const actions = { "/": () => document.querySelector("[data-shortcut=compose]")?.focus(), k: () => openKey(), n: () => { location.hash = "#/chat"; }, t: () => nextTheme(element("theme-button")), "?": () => element("help-dialog").showModal() };
  const action = actions[event.key] ?? (pages[event.key - 1] && (() => { location.hash = `#/${pages[event.key - 1]}`; }));
  if (!action) return;
  event.preventDefault();
  action();
}

function listen() {
  addEventListener("hashchange", () => { route(); main.focus({ preventScroll: true }); });
  addEventListener("keydown", onKey);
  document.addEventListener("headrace:key", (event) => openKey(event.detail));
  element("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
  element("key-button").addEventListener("click", () => openKey());
  element("key-cancel").addEventListener("click", () => element("key-dialog").close());
  element("key-forget").addEventListener("click", () => useKey(""));
  element("key-form").addEventListener("submit", (event) => { event.preventDefault(); useKey(element("key-field").value.trim()); });
  element("theme-button").addEventListener("click", () => nextTheme(element("theme-button")));
  element("help-button").addEventListener("click", () => element("help-dialog").showModal());
}

listen();
describeTheme(element("theme-button"));
await readHealth();
describeKey();
route();
if (lacksKey()) openKey();
poll(readHealth, HEALTH_MS, new AbortController().signal);

// The gateway's API. The key lives in sessionStorage: one tab, until it is closed.

const KEY = "headrace.key";
const PATIENCE_MS = 15_000;
const RESUME_MS = 10_000;
const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 500;

export const platform = { needsKey: false };

export const readKey = () => sessionStorage.getItem(KEY) ?? "";

export function keepKey(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

export const lacksKey = () => platform.needsKey && !readKey();

export class ApiError extends Error {
  constructor(status, message, code, param = null) {
    super(message);
    Object.assign(this, { status, code, param });
  }
}

export function headers(extra = {}) {
  const key = readKey();
  return { ...(key ? { authorization: `Bearer ${key}` } : {}), ...extra };
}

export async function get(path, signal) {
  return ask("GET", path, undefined, signal);
}

export async function ask(method, path, body, signal, extra = {}) {
  const response = await request(method, path, body, signal ?? AbortSignal.timeout(PATIENCE_MS), extra);
  return response.json();
}

/** Sends a request, and throws ApiError with the gateway's own words where it refuses. */
export async function request(method, path, body, signal, extra = {}) {
  let response;
  const given = body === undefined ? extra : { ...extra, "content-type": "application/json" };
  try {
    response = await fetch(path, { method, headers: headers(given), body: body && JSON.stringify(body), signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, error.name === "TimeoutError" ? "The gateway did not answer in time. Try again." : "The gateway cannot be reached. Is the platform running?", "unreachable");
  }
  if (response.ok) return response;
  const content = await response.json().catch(() => null);
  if (response.status === 401) document.dispatchEvent(new CustomEvent("headrace:key", { detail: content?.error?.message }));
  throw new ApiError(response.status, content?.error?.message ?? `HTTP status ${response.status}`, content?.error?.code ?? "", content?.error?.param ?? null);
}

/** Yields the data of each server-sent event (HTML, 9.2), as text, and notes in `place` the id of the last. */
export async function* events(response, place = {}) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const values = (name) => part.split("\n").filter((line) => line.startsWith(name)).map((line) => line.slice(name.length).trimStart());
        place.id = values("id:").pop() ?? place.id;
        const lines = values("data:");
        if (lines.length) yield lines.join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Yields the data of all events of a stream up to its end. One whose connection breaks is resumed, at whichever gateway answers. */
export async function* stream(response, signal) {
  const place = {};
  let name, brokenAt, pause;
  for (;;) {
    try {
      for await (const data of events(response, place)) {
        brokenAt = undefined;
        if (data !== "[DONE]") name ??= JSON.parse(data).id;
        yield data;
        if (data === "[DONE]" || data.startsWith('{"error"')) return;
      }
      throw new ApiError(0, "The connection broke in the middle of the answer.", "unreachable");
    } catch (error) {
      brokenAt ??= performance.now();
      if (signal.aborted || !name || !place.id || !isBreak(error) || performance.now() - brokenAt > RESUME_MS) throw error;
    }
    response = null;
    for (pause = FIRST_PAUSE_MS; response === null; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      response = await request("GET", `headrace/streams/${encodeURIComponent(name)}?after=${place.id}`, undefined, signal).catch((error) => {
        if (signal.aborted || !isBreak(error) || performance.now() - brokenAt > RESUME_MS) throw error;
        return null;
      });
    }
  }
}

/** Whether another connection may continue what failed: it broke (fetch throws a TypeError), or no gateway answers. */
const isBreak = (error) => error instanceof TypeError || (error instanceof ApiError && (error.status === 0 || error.status === 503));

/** Reads something again and again while its page is shown and the window visible. */
export function poll(read, milliseconds, signal) {
  let timer;
  const next = async () => {
    if (!document.hidden) await read().catch(() => {});
    if (!signal.aborted) timer = setTimeout(next, milliseconds);
  };
  signal.addEventListener("abort", () => clearTimeout(timer));
  next();
}

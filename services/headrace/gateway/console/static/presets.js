// What a browser remembers of the writing: settings by name, those that a new conversation begins with, and drafts.

const PRESETS = "headrace.presets";
const LAST = "headrace.settings";

function read(name) {
  try {
    const value = JSON.parse(localStorage.getItem(name) ?? "{}");
    return value && typeof value === "object" && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

/** Returns a sentence where the browser keeps nothing more, or "". */
function keep(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
    return "";
  } catch {
    return "This browser has no room left to keep settings.";
  }
}

export const lastSettings = () => read(LAST);
export const keepLast = (settings) => keep(LAST, settings);
export const readPresets = () => read(PRESETS);
export const keepPreset = (name, settings) => keep(PRESETS, { ...readPresets(), [name]: settings });

export function removePreset(name) {
  const { [name]: _, ...others } = readPresets();
  keep(PRESETS, others);
}

const draftOf = (id) => `headrace.draft.${id}`;

/** The text that was being written in a conversation, in this tab. */
export const readDraft = (id) => sessionStorage.getItem(draftOf(id)) ?? "";

export function keepDraft(id, text) {
  try {
    if (text) sessionStorage.setItem(draftOf(id), text);
    else sessionStorage.removeItem(draftOf(id));
  } catch {
    // A draft too long to be kept stays in its box.
  }
}

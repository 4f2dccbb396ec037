// Settings saved by name in this browser, and those that a new conversation begins with.

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

// Numbers and times for people.

const whole = new Intl.NumberFormat("en-US");

export const count = (number) => (number === null || number === undefined ? "–" : whole.format(number));
export const share = (part) => `${(part * 100).toFixed(1)}%`;
export const rate = (number) => (number ? `${number >= 100 ? whole.format(Math.round(number)) : number.toFixed(1)}/s` : "–");

export function milliseconds(number) {
  if (number === null || number === undefined) return "–";
  if (number >= 10_000) return `${(number / 1000).toFixed(1)} s`;
  return `${number >= 100 ? number.toFixed(0) : number.toFixed(number >= 10 ? 1 : 2)} ms`;
}

export function bytes(number) {
  if (!number) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(number) / 10));
  const value = number / 2 ** (10 * power);
  return `${value.toFixed(value < 10 && power ? 1 : 0)} ${units[power]}`;
}

const two = (number) => String(number).padStart(2, "0");

/** Local time of a number of seconds since 1970; with the day where that is not today. */
export function clock(seconds) {
  const time = new Date(seconds * 1000);
  const text = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  return time.toDateString() === new Date().toDateString() ? text : `${day(seconds)} ${text}`;
}

export function day(seconds) {
  const time = new Date(seconds * 1000);
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
}

// A text file that goes with a message: small enough, and text indeed.

import { bytes } from "./format.js";

export const MOST_BYTES = 256 * 1024;
export const MOST_FILES = 5;

/** Returns name and text of a file. Throws Error with a sentence where it cannot be attached. */
export async function readAttachment(file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} is too large: ${bytes(file.size)}, and at most ${bytes(MOST_BYTES)} can be attached.`);
  const content = new Uint8Array(await file.arrayBuffer());
  try {
    if (content.includes(0)) throw new TypeError("binary");
    return { name: file.name.slice(0, 200), text: new TextDecoder("utf-8", { fatal: true }).decode(content) };
  } catch {
    throw new Error(`${file.name} is not a text file. Only text in UTF-8 can be attached.`);
  }
}

// Tokens of an answer, shaded by how sure the model was, with the alternatives of one.

import { h, show } from "./dom.js";
import { share } from "./format.js";

const DEEPEST = 38;
const visible = (text) => text.replaceAll("\n", "↵\n");
const named = (text) => `“${text.replaceAll("\n", "↵").replaceAll(" ", "␣")}”`;

/** The tokens up to the end of `text`, without the one that ends the message. All, where they do not spell the text. */
export function tokensUntilEnd(tokens, text) {
  const end = text && tokens.map((token) => token.token).join("").lastIndexOf(text) + text.length;
  if (!text || end < text.length) return tokens;
  let length = 0;
  return tokens.filter((token) => (length += token.token.length) - token.token.length < end);
}

/** The tokens, of which the arrow keys choose one, and what is known of the chosen one. The style sheet shows the hint
 * under the last answer only. */
export function tokenView(tokens) {
  const chosen = h("div", { class: "token-detail", role: "status" }, h("span", { class: "token-hint muted small" }, "More strongly shaded: less likely. Point at a token, or move with the arrow keys."));
  const spans = tokens.map((token, at) => h("span", { role: "option", "aria-selected": "false", tabindex: at ? "-1" : "0", class: "token",
    "aria-label": `${token.token.trim() || "space"}, ${share(Math.exp(token.logprob))}`,
    vars: { "--shade": `${Math.round((1 - Math.exp(token.logprob)) * DEEPEST)}%` },
    on: { mouseenter: () => choose(at), focus: () => choose(at), keydown: (event) => move(event, at) } }, visible(token.token)));
  const choose = (at) => {
    spans.forEach((span, other) => span.setAttribute("aria-selected", String(other === at)));
    show(chosen, detail(tokens[at], at, tokens.length));
  };
  const move = (event, at) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: spans.length - 1 }[event.key];
    if (to === undefined || !spans[to]) return;
    event.preventDefault();
    spans[at].tabIndex = -1;
    spans[to].tabIndex = 0;
    spans[to].focus();
  };
  return [h("div", { class: "tokens", role: "listbox", "aria-label": "Tokens of the answer" }, spans), chosen];
}

function detail(token, at, total) {
  const others = token.top_logprobs.length ? token.top_logprobs : [token];
  const bars = others.map((other) => h("li", { class: other.token === token.token && "same" }, h("code", {}, named(other.token)),
    h("span", { class: "meter", "aria-hidden": "true" }, h("span", { vars: { "--share": Math.exp(other.logprob) } })), h("span", { class: "number" }, share(Math.exp(other.logprob)))));
  return [h("p", { class: "small" }, `Token ${at + 1} of ${total}: `, h("code", {}, named(token.token)), ` ${share(Math.exp(token.logprob))}`), h("ol", { class: "alternatives" }, bars)];
}

// The page of the API: opens what is linked to, and lets operations be tried.

import { describeTheme, nextTheme } from "./scheme.js";
import { addTrial } from "./trial.js";

const button = document.getElementById("theme-button");

function openLinked() {
  const linked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (linked?.tagName !== "DETAILS") return;
  linked.open = true;
  linked.scrollIntoView();
}

function watch(section) {
  let isReady = false;
  section.addEventListener("toggle", () => {
    if (!section.open || isReady) return;
    isReady = true;
    addTrial(section);
  });
}

button.hidden = false;
describeTheme(button);
button.addEventListener("click", () => nextTheme(button));
for (const section of document.querySelectorAll("details[data-try]")) watch(section);
addEventListener("hashchange", openLinked);
openLinked();

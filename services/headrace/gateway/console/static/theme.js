// Runs before the first paint, so that no other scheme flashes up.
(() => {
  const chosen = localStorage.getItem("headrace.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();

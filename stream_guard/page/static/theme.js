// Runs before the page is drawn, so that it does not flash in the other colours.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("sg-theme"); } catch { /* a browser that keeps nothing */ }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();

// Everything works without this file. With it: times relative to now, keys, dark and light, and a list that stays short.
(() => {
  "use strict";
  const MOST_ROWS = 300;

  // Times
  const units = [["y", 31536000], ["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const between = (seconds) => {
    const left = Math.abs(seconds);
    for (const [unit, size] of units) if (left >= size) return `${Math.floor(left / size)} ${unit}`;
    return "now";
  };
  const tellTimes = (root) => {
    const now = Date.now();
    for (const element of root.querySelectorAll("time[datetime]")) {
      const seconds = (now - Date.parse(element.dateTime)) / 1000;
      const text = between(seconds);
      element.textContent = text === "now" ? "now" : seconds < 0 ? `in ${text}` : `${text} ago`;
    }
    for (const element of root.querySelectorAll("[data-left]")) {
      const left = Number(element.dataset.left) - now / 1000;
      element.textContent = left > 0 ? between(left) : "expired";
    }
  };
  tellTimes(document);
  setInterval(() => tellTimes(document), 10000);

  // Dark and light
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const switchTheme = () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("sg-theme", theme); } catch { /* chosen for this page only */ }
  };
  document.getElementById("theme")?.addEventListener("click", switchTheme);

  // Live alerts
  const live = document.getElementById("live");
  const say = (state, word) => {
    if (!live) return;
    live.className = `live ${state}`;
    live.querySelector(".live-word").textContent = word;
  };
  document.body.addEventListener("htmx:sseOpen", () => say("on", "live"));
  document.body.addEventListener("htmx:sseError", () => say("off", "reconnecting"));
  document.body.addEventListener("htmx:sseClose", () => say("off", "stopped"));
  if (live && !document.querySelector("[sse-connect]")) say("off", "an older page");
  const list = document.getElementById("alerts");
  document.body.addEventListener("htmx:afterSwap", (event) => tellTimes(event.target.parentElement ?? event.target));
  document.body.addEventListener("htmx:sseMessage", () => {
    document.getElementById("nothing")?.remove();
    if (!list) return;
    const rows = list.querySelectorAll(":scope > .row");
    for (let number = MOST_ROWS; number < rows.length; number++) rows[number].remove();
    tellTimes(list);
  });

  // Keys
  const rows = () => [...document.querySelectorAll(".row .open, .step")];
  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(document.activeElement);
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + step))];
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "center" });
  };
  const keys = document.getElementById("keys");
  document.getElementById("keys-button")?.addEventListener("click", () => keys.showModal());
  const places = { a: "/", s: "/sessions", r: "/reviews", i: "/incidents", u: "/rules", v: "/activity", p: "/policy" };
  let going = false;
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, textarea, select")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (going) {
      going = false;
      if (places[event.key]) { event.preventDefault(); location.assign(places[event.key]); return; }
    }
    switch (event.key) {
      case "j": move(1); break;
      case "k": move(-1); break;
      case "g": going = true; break;
      case "t": switchTheme(); break;
      case "?": keys.open ? keys.close() : keys.showModal(); break;
      case "/": {
        const search = document.getElementById("search");
        if (!search) return;
        search.focus();
        search.select();
        break;
      }
      default: return;
    }
    event.preventDefault();
  });

  // A filter that is chosen counts at once.
  for (const select of document.querySelectorAll(".filters select")) select.addEventListener("change", () => select.form.requestSubmit());
  // An answer is given once.
  for (const form of document.querySelectorAll("form[method=post]")) {
    form.addEventListener("submit", () => setTimeout(() => form.querySelectorAll("button").forEach((button) => { button.disabled = true; })));
  }
  document.querySelector(".step.here")?.scrollIntoView({ block: "center" });
})();

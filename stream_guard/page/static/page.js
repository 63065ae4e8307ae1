// Everything works without this file. With it: times relative to now, keys, dark and light, and a list that stays short.
(() => {
  "use strict";
  const MOST_ROWS = 200;
  const UNSEEN_FOR = 120000; // milliseconds

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

  // Live alerts: a list that stays short, and does not move while somebody reads in it
  const live = document.getElementById("live");
  const stream = document.getElementById("stream");
  const list = document.getElementById("alerts");
  const waiting = document.getElementById("waiting");
  const title = document.title;
  let held = 0; // alerts that wait until nobody reads in the list any more
  let had = 0; // the number of the latest alert before a message
  let unseen = 0;
  const say = (state, word) => {
    if (!live) return;
    live.className = `live ${state}`;
    live.querySelector(".live-word").textContent = word;
  };
  // Looked up when it changes: to ask for it with every message would have the page laid out each time.
  let isFarDown = false;
  addEventListener("scroll", () => { isFarDown = scrollY > 80; }, { passive: true });
  const isReading = () => isFarDown || list.matches(":hover") || waiting.matches(":hover") || list.contains(document.activeElement);
  const alertsIn = (text) => (text.match(/data-number="/g) ?? []).length + Number(/data-more="(\d+)"/.exec(text)?.[1] ?? 0);
  const newestIn = (text) => Number(/data-number="(\d+)"/.exec(text)?.[1] ?? 0);
  const newest = () => Number(list.querySelector(":scope > .row")?.dataset.number ?? 0);
  let heldUpTo = 0;
  let isCatchingUp = false;
  const hold = (data) => {
    held += alertsIn(data);
    heldUpTo = Math.max(heldUpTo, newestIn(data));
    tellWaiting();
  };
  const tellWaiting = () => {
    document.getElementById("waiting-count").textContent = held.toLocaleString("en");
    document.getElementById("waiting-word").textContent = held === 1 ? "new alert" : "new alerts";
    waiting.hidden = held === 0;
  };
  const catchUp = async () => {
    if (!held || isCatchingUp) return;
    isCatchingUp = true;
    const [known, upTo] = [held, heldUpTo];
    const address = new URL(waiting.querySelector("a").href);
    address.searchParams.set("part", "rows");
    try {
      await htmx.ajax("GET", address.pathname + address.search, { target: list, swap: "innerHTML" });
    } catch { /* the bar stays, and its link works */ }
    isCatchingUp = false;
    if (newest() >= upTo) held -= known; // what came meanwhile goes on waiting
    tellWaiting();
  };
  for (const one of [list, waiting]) one?.addEventListener("mouseleave", () => { if (!isReading()) catchUp(); });
  waiting?.addEventListener("click", (event) => {
    if (!window.htmx || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    document.activeElement?.blur();
    scrollTo(0, 0);
    catchUp();
  });
  // A list that was fetched may have alerts that a message brings a moment later.
  const leaveOutKnown = (had, data) => {
    const brought = [...list.querySelectorAll(":scope > .row")].slice(0, (data.match(/data-number="/g) ?? []).length);
    const known = brought.filter((row) => Number(row.dataset.number) <= had);
    // Those that a message only counts are older than those that it brings, so the list has them too.
    if (known.length && data.includes("data-more=")) list.querySelector(":scope > .more")?.remove();
    for (const row of known) row.remove();
  };
  const trim = () => {
    const rows = [...list.querySelectorAll(":scope > :not(.next)")];
    const last = rows.slice(0, MOST_ROWS).findLast((row) => row.dataset.number)?.dataset.number;
    if (rows.length <= MOST_ROWS || !last) return;
    for (const row of rows.slice(MOST_ROWS)) row.remove();
    // What was taken off the end is where the older ones begin now.
    const address = new URL(waiting.querySelector("a").href);
    address.searchParams.set("before", last);
    const next = document.createElement("li");
    const link = document.createElement("a");
    next.className = "next";
    link.textContent = "Older alerts";
    link.href = address.pathname + address.search;
    next.append(link);
    list.querySelector(":scope > .next")?.remove();
    list.append(next);
  };
  document.body.addEventListener("htmx:sseOpen", () => say("on", "live"));
  document.body.addEventListener("htmx:sseError", () => say("off", "reconnecting"));
  document.body.addEventListener("htmx:sseClose", () => say("off", "stopped"));
  if (live && !stream) say("off", "an older page");
  document.body.addEventListener("htmx:afterSwap", (event) => tellTimes(event.target.parentElement ?? event.target));
  document.body.addEventListener("htmx:sseBeforeMessage", (event) => {
    const { data, lastEventId } = event.detail;
    const address = new URL(stream.getAttribute("sse-connect"), location.href);
    address.searchParams.set("after", lastEventId);
    stream.setAttribute("sse-connect", address.pathname + address.search); // a new connection goes on from here
    if (event.target !== list) {
      if (event.target.contains(document.activeElement)) event.preventDefault();
      return;
    }
    if (document.hidden) document.title = `(${unseen += alertsIn(data)}) ${title}`;
    had = newest();
    if (!held && !isReading()) return;
    event.preventDefault();
    hold(data);
    if (!isReading()) catchUp();
  });
  document.body.addEventListener("htmx:sseMessage", (event) => {
    if (event.target !== list) return;
    document.getElementById("nothing")?.remove();
    leaveOutKnown(had, event.detail.data);
    trim();
  });
  // A browser has few connections for one server: a page that nobody sees gives its own back after a while.
  let asleep = 0;
  let source = null;
  if (stream && window.htmx) htmx.createEventSource = (url) => (source = new EventSource(url));
  document.addEventListener("visibilitychange", () => {
    clearTimeout(asleep);
    if (document.hidden) {
      asleep = setTimeout(() => { source?.close(); source = null; say("off", "asleep"); }, UNSEEN_FOR);
    } else {
      unseen = 0;
      document.title = title;
      if (stream && !source) location.reload();
    }
  });

  // Ids are copied with a click or a key.
  const copied = document.getElementById("copied");
  let quiet = 0;
  const copyOldWay = (text) => { // a page that is not on https or on this machine has no clipboard of its own
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  };
  const copyId = async (holder) => {
    if (!holder) return;
    const text = holder.dataset.copy.replace(/\s+/g, " ").trim(); // agents choose ids: a line break would run in a terminal
    const before = document.activeElement;
    const done = navigator.clipboard ? await navigator.clipboard.writeText(text).then(() => true, () => copyOldWay(text)) : copyOldWay(text);
    before?.focus({ preventScroll: true });
    copied.textContent = done ? `Copied ${text}` : `Could not copy ${text}`;
    copied.hidden = false;
    clearTimeout(quiet);
    quiet = setTimeout(() => { copied.hidden = true; }, 2500);
  };
  document.addEventListener("click", (event) => copyId(event.target.closest("button.copy")));

  // Keys
  const move = (step, wanted = ".row .open, .timeline:not(.brief) .step") => {
    const all = [...document.querySelectorAll(wanted)];
    if (!all.length) return;
    // From where the keys are, or else from what the page was opened at.
    const from = document.activeElement.closest(".row .open, .step") ?? document.querySelector(".timeline:not(.brief) .step.here");
    const isBehind = (one) => from && from.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING;
    const isBefore = (one) => from && from.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_PRECEDING;
    const next = !from ? all[0] : step > 0 ? all.find(isBehind) : all.findLast(isBefore);
    if (!next) return;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "center" });
  };
  const keys = document.getElementById("keys");
  document.getElementById("keys-button")?.addEventListener("click", () => keys.showModal());
  const places = { a: "/", s: "/sessions", r: "/reviews", i: "/incidents", u: "/rules", l: "/learned", j: "/judge", v: "/activity", o: "/reports", p: "/policy" };
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
      case "n": move(1, ".step.found"); break;
      case "N": move(-1, ".step.found"); break;
      case "g": going = true; break;
      case "c": copyId(document.activeElement.closest("[data-copy]") ?? document.querySelector("main button.copy")); break;
      case "t": switchTheme(); break;
      case ".": if (held) waiting.querySelector("a").click(); break;
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
  document.querySelector(".timeline:not(.brief) .step.here")?.scrollIntoView({ block: "center" });
  const here = document.querySelector(".bar nav [aria-current]");
  // Only where the menu does not fit: the page is laid out for it.
  if (here && matchMedia("(max-width: 900px)").matches) here.parentElement.scrollLeft = here.offsetLeft - (here.parentElement.clientWidth - here.clientWidth) / 2;

  // A place on the strip of a session leads to the events there.
  const strip = document.querySelector(".strip-box");
  const eventAt = (event) => {
    const { left, width } = strip.querySelector(".strip").getBoundingClientRect();
    const share = Math.max(0, Math.min(0.9999, (event.clientX - left) / width));
    return Number(strip.dataset.first) + Math.floor(share * Number(strip.dataset.total));
  };
  strip?.addEventListener("mousemove", (event) => { strip.title = `event ${eventAt(event).toLocaleString("en")}`; });
  strip?.addEventListener("click", (event) => {
    if (event.target.closest("form, a")) return;
    const number = eventAt(event);
    location.assign(`${location.pathname}?at=${number}#e${number}`);
  });

  // Something that is wrong with an edit leads to its line.
  const text = document.getElementById("policy-text");
  for (const problem of document.querySelectorAll("[data-line]")) {
    problem.addEventListener("click", () => {
      const lines = text.value.split("\n");
      const line = Math.min(lines.length, Number(problem.dataset.line)) - 1;
      const begin = lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0);
      text.focus();
      text.setSelectionRange(begin, begin + lines[line].length);
      text.scrollTop = text.scrollHeight * (line - 4) / lines.length;
    });
  }
})();

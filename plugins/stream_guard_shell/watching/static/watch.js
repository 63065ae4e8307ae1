// Draws what the watcher knows, every second. Texts of agents go in as text, never as markup.
"use strict";
const TITLES = {
  findings: "Rules found", deleted: "Deleted", created: "Created", changed: "Changed", secrets: "Secrets read",
  sent: "Connections", git: "git", other: "Other effects",
};

function made(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function list(session, name) {
  const section = made("section", name);
  const more = session.totals[name] > session.lists[name].length ? `, the last ${session.lists[name].length}` : "";
  section.append(made("h3", "", `${TITLES[name]} (${session.totals[name]}${more})`));
  const items = made("ul");
  items.tabIndex = 0;
  items.setAttribute("aria-label", TITLES[name]);
  for (const text of session.lists[name]) items.append(made("li", "", text));
  section.append(items);
  return section;
}

function card(session) {
  const article = made("article");
  article.dataset.session = session.name;
  article.append(made("h2", "", `${session.agent} ${session.name.slice(0, 8)}`));
  const when = session.last ? new Date(session.last * 1000).toLocaleString() : "no time";
  article.append(made("p", "place", `${session.folder || "folder not known"}, ${when}`));
  if (session.now) article.append(made("p", "now", session.now));
  const numbers = made("dl");
  for (const [name, value] of Object.entries(session.numbers)) {
    const pair = made("div");
    pair.append(made("dt", "", name), made("dd", "", value.toLocaleString("en")));
    numbers.append(pair);
  }
  article.append(numbers);
  for (const name of Object.keys(TITLES)) if (session.lists[name].length) article.append(list(session, name));
  return article;
}

let shown = "";
async function look() {
  const summary = document.getElementById("summary");
  try {
    const text = await (await fetch("/state")).text();
    if (text === shown) return;
    shown = text;
    const state = JSON.parse(text);
    const deleted = state.sessions.reduce((sum, one) => sum + one.totals.deleted, 0);
    summary.textContent =
      `${state.sessions.length} sessions in ${state.folders.join(", ")}; ${deleted} deleted; ${state.unread} lines not understood.`;
    document.getElementById("sessions").replaceChildren(...state.sessions.map(card));
  } catch {
    shown = "";
    summary.textContent = "The watcher has ended. What is below is its last word.";
  }
}
look();
setInterval(look, 1000);

// Failed rows, with what may be decided about them, and rows that lost in conflicts.

import { ask, counted, h, notice, say, span, table } from "./dom.js";
import { get, of, post } from "./server.js";

const MOST = 100;
const SKIP = "These changes are dropped and never applied. The target stays without them.";
const TAKE = "The feed writes what the source has now of these rows, and their failed changes end.";

export function rowsPage(root, name, { state, may, failed }) {
  const stop = new AbortController();
  const words = h("p", { role: "status" });
  const details = h("section", { "aria-live": "polite" });
  const columns = [
    { title: "Table", cell: (one) => one.table },
    { title: "Key", long: true, cell: (one) => one.key },
    { title: "Error", long: true, cell: (one) => one.error },
    { title: "Age", number: true, cell: (one) => age(one.failed_seconds) },
    { title: "Queued for", cell: (one) => one.queued },
    { title: "Actions", cell: actions },
  ];
  const rows = table("Failed rows", columns, (one) => one.id);
  const bar = h("p", { class: "bar" }, h("button", { type: "button", click: look }, "Look again"));
  const allowed = (path) => may(`/feeds/{feed}/failed-rows/${path}`);
  const all = { all: true };
  const buttons = [
    ["retry", h("button", { type: "button", click: () => decide("retry", all, "all failed rows") }, "Retry all")],
    ["skip", h("button", { type: "button", click: () => decide("skip", all, "all failed rows", SKIP) }, "Skip all")],
    ["take-source", h("button", { type: "button", click: () => decide("take-source", all, "all failed rows", TAKE) }, "Take the source's rows")],
  ];
  bar.append(...buttons.filter(([path]) => allowed(path)).map(([, button]) => button));
  root.append(bar, words, rows.node, details);
  let count = null;

  function actions() {
    const shows = { label: "Show", press: showRow };
    const one = (path, question) => (row) => decide(path, { ids: [row.id] }, `${row.table} ${row.key}`, question);
    const retry = allowed("retry") && { label: "Retry", press: one("retry") };
    const skip = allowed("skip") && { label: "Skip", press: one("skip", SKIP) };
    return { buttons: [shows, retry, skip].filter(Boolean) };
  }

  async function look() {
    if (!name) return say(words, "The folder holds no feed.");
    try {
      const found = await get(of(name, `/failed-rows?limit=${MOST}`), stop.signal);
      rows.update(found, "No failed rows.");
      say(words, found.length === MOST ? `The first ${MOST}, oldest first.` : `${counted(found.length, "failed row")}.`);
    } catch (error) {
      if (error.name !== "AbortError") say(words, error.message);
    }
  }

  async function decide(path, body, about, question) {
    if (question && !(await ask(`${path}: ${about}`, h("p", {}, question), [["yes", "Yes"]]))) return;
    try {
      await post(of(name, `/failed-rows/${path}`), body);
      notice(`${path}: asked for, about ${about}`);
      await look();
    } catch (error) {
      failed(error);
    }
  }

  async function showRow(row) {
    try {
      const told = await get(of(name, `/failed-rows/${encodeURIComponent(row.id)}`), stop.signal);
      images(details, `${row.table} ${row.key}`, [["before", told.before], ["after", told.after]]);
    } catch (error) {
      if (error.name !== "AbortError") failed(error);
    }
  }

  function update() {
    const now = state.feeds.find((one) => one.name === name)?.sample?.failed_rows ?? null;
    if (now !== null && count !== null && now !== count) look();
    count = now ?? count;
  }

  look();
  return { update, close: () => stop.abort() };
}

export function conflictsPage(root, name, { failed }) {
  const stop = new AbortController();
  const words = h("p", { role: "status" });
  const details = h("section", { "aria-live": "polite" });
  const columns = [
    { title: "Table", cell: (one) => one.table },
    { title: "Key", long: true, cell: (one) => one.key },
    { title: "Conflict", cell: (one) => one.type },
    { title: "Outcome", cell: (one) => one.outcome },
    { title: "Meant by", cell: (one) => one.meant_by },
    { title: "Path", wide: true, cell: (one) => one.path },
    { title: "Age", number: true, cell: (one) => age(one.seconds) },
    { title: "Actions", cell: () => ({ buttons: [{ label: "Show", press: showRow }] }) },
  ];
  const rows = table("What was meant and does not stand", columns, (one) => one.id);
  const again = h("button", { type: "button", click: look }, "Look again");
  root.append(h("p", { class: "bar" }, again), words, rows.node, details);

  async function look() {
    if (!name) return say(words, "The folder holds no feed.");
    try {
      const found = await get(of(name, `/conflicts?limit=${MOST}`), stop.signal);
      rows.update(found, "No row has lost in a conflict.");
      say(words, found.length === MOST ? `The first ${MOST}, newest first.` : `${counted(found.length, "row")} lost.`);
    } catch (error) {
      if (error.name !== "AbortError") say(words, error.message);
    }
  }

  async function showRow(row) {
    try {
      const told = await get(of(name, `/conflicts/${encodeURIComponent(row.id)}`), stop.signal);
      images(details, `${row.table} ${row.key}`, [["lost", told.lost], ["stands", told.stands]]);
    } catch (error) {
      if (error.name !== "AbortError") failed(error);
    }
  }

  look();
  return { close: () => stop.abort() };
}

const age = (seconds) => span(seconds).replace(/^0\.\d s$/, "now");

/** Two images of a row beside each other, by column; what differs is in bold. */
function images(place, title, [[one, first], [other, second]]) {
  const names = [...new Set([...Object.keys(first ?? {}), ...Object.keys(second ?? {})])];
  const value = (row, name) => (row == null ? "no row" : row[name] === undefined ? "" : JSON.stringify(row[name]));
  const columns = [
    { title: "Column", cell: (name) => name },
    { title: one, long: true, cell: (name) => value(first, name) },
    { title: other, long: true, cell: (name) => value(second, name) },
  ];
  const shown = table(title, columns, (name) => name);
  shown.update(names);
  place.replaceChildren(shown.node);
}

// Lanes, live: what waits in each, who waits for whom, and the keys that are waited for most.

import { counted, h, number, say, table } from "./dom.js";
import { get, of } from "./server.js";

const EACH_MS = 2000;
const MOST_KEYS = 12;
const STATES = {
  idle: "idle",
  applies: "applies a batch",
  ready: "may send",
  waits: "waits for another lane",
};

export function lanesPage(root, name) {
  const stop = new AbortController();
  let timer = 0;
  const total = h("p", { role: "status" });
  const live = h("input", { type: "checkbox", checked: true, change: () => (live.checked ? look() : clearTimeout(timer)) });
  const lanes = table(
    "Lanes",
    [
      { title: "Lane", cell: named },
      { title: "State", cell: (one) => ({ text: STATES[one.state] ?? one.state, tone: one.state === "waits" ? "warn" : "" }) },
      { title: "Rows that wait", number: true, cell: (one) => number(one.waiting) + (one.more ? " and more" : "") },
      { title: "Rows at the target", number: true, cell: (one) => number(one.batch_rows) },
    ],
    named,
  );
  const waits = table(
    "Who waits for whom",
    [
      { title: "Change", long: true, cell: (one) => one.change },
      { title: "In lane", number: true, cell: (one) => one.lane },
      { title: "Rows with it", number: true, wide: true, cell: (one) => number(one.rows) },
      { title: "Waits for", long: true, cell: (one) => one.waits_for },
      { title: "At lane", number: true, cell: (one) => one.at },
      { title: "Which", wide: true, cell: (one) => (one.applies ? "is at the target" : "waits itself") },
      { title: "Key", long: true, cell: (one) => one.key },
    ],
    (one) => `${one.group} ${one.change} ${one.lane} ${one.waits_for} ${one.at} ${one.key}`,
  );
  const hottest = table(
    "Hottest keys",
    [
      { title: "Table", cell: (one) => one.table },
      { title: "Key", long: true, cell: (one) => one.key },
      { title: "Waits", number: true, cell: (one) => number(one.waiting) },
    ],
    (one) => `${one.group} ${one.table} ${one.key}`,
  );
  root.append(
    h("p", { class: "bar" }, h("label", { class: "line" }, live, "Live"), total),
    lanes.node,
    hottest.node,
    waits.node,
  );

  async function look() {
    clearTimeout(timer);
    if (!name) return say(total, "The folder holds no feed.");
    try {
      const told = await get(of(name, "/lanes"), stop.signal);
      const words = told.total_waiting
        ? `${counted(told.total_waiting, "run")} of rows wait for a commit of another lane; the first are shown.`
        : "No lane waits for another.";
      say(total, told.age_seconds ? `${words} This was so ${told.age_seconds} s ago: its process is busy.` : words);
      lanes.update(told.lanes, "It has no lanes yet.");
      waits.update(unique(told.waits), "Nobody waits.");
      hottest.update(told.hottest.slice(0, MOST_KEYS), "No key is waited for.");
    } catch (error) {
      if (error.name === "AbortError") return;
      say(total, error.message);
      for (const one of [lanes, waits, hottest]) one.update([], "Unknown.");
    }
    if (live.checked && !stop.signal.aborted) timer = setTimeout(look, document.hidden ? 5 * EACH_MS : EACH_MS);
  }

  look();
  return {
    close: () => {
      clearTimeout(timer);
      stop.abort();
    },
  };
}

const named = (one) => (one.group ? `${one.group}.${one.lane}` : String(one.lane));

/** Each wait once: two changes of one row look the same. */
function unique(waits) {
  const seen = new Map(waits.map((one) => [JSON.stringify(one), one]));
  return [...seen.values()];
}

// All feeds in a table, with a filter.

import { at, h, number, span, table } from "./dom.js";

const TONES = { runs: "good", "needs an operator": "bad", "cannot be read": "bad", waits: "warn", ends: "warn" };

/** What a feed is doing, in words: the run's own state where it has one. */
export function stateOf(feed) {
  const state = feed.running && feed.sample ? feed.sample.state : feed.state;
  const tone = state === "running" || state === "caught up" ? "good" : state === "halted" ? "bad" : TONES[feed.state];
  return { text: feed.retry_in == null ? state : `${state}, again in ${span(feed.retry_in)}`, tone };
}

/** What somebody should know of a feed, '' where all is well. */
export function wordsOf(feed) {
  const sample = feed.sample;
  if (!sample) return feed.words;
  const waits = (sample.hindrances ?? []).map((one) => `waits for the ${one.at} for ${span(one.seconds)}: ${one.message}`);
  return [sample.alarm, sample.unreachable, sample.held && `holds: ${sample.held}`, ...waits].filter(Boolean).join("; ");
}

export function feedsPage(root, _, { state }) {
  const filter = h("input", { type: "search", id: "filter", autocomplete: "off", input: update });
  const count = h("p", { role: "status", class: "quiet" });
  const feeds = table(
    "Feeds of this folder",
    [
      { title: "Feed", cell: (one) => ({ text: one.name, href: at("feed", one.name) }) },
      { title: "State", cell: stateOf },
      { title: "Lag", number: true, cell: (one) => (one.sample ? span(one.sample.lag_seconds) : "") },
      { title: "Rows/s", number: true, cell: (one) => number(one.sample?.rows_per_second) },
      { title: "Rows", number: true, wide: true, cell: (one) => number(one.sample?.rows_total) },
      {
        title: "Failed rows",
        number: true,
        cell: (one) =>
          one.sample?.failed_rows
            ? { text: number(one.sample.failed_rows), href: at("rows", one.name), tone: "bad" }
            : one.sample && "0",
      },
      { title: "Source", wide: true, cell: (one) => one.source },
      { title: "Target", wide: true, cell: (one) => one.target },
      { title: "What it says", long: true, cell: wordsOf },
    ],
    (one) => one.file,
  );
  root.append(h("div", { class: "bar" }, h("label", {}, "Filter (name, state, server)", filter), count), feeds.node);

  function update() {
    if (!state.known) return;
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (one) => `${one.name} ${stateOf(one).text} ${one.source} ${one.target}`.toLowerCase();
    const found = state.feeds.filter((one) => words.every((word) => text(one).includes(word)));
    count.textContent = `${found.length} of ${state.feeds.length}`;
    feeds.update(found, state.feeds.length ? "No feed fits the filter." : "The folder holds no feed.");
  }
  return { update };
}

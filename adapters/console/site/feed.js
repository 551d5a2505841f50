// One feed: the way of its rows, its figures over time, its halt with the way out, its copies, and what may be asked.

import { ask, at, counted, h, notice, number, say, span, table } from "./dom.js";
import { plot, topology } from "./drawings.js";
import { stateOf, wordsOf } from "./feeds.js";
import { get, of, post } from "./server.js";

const COPY = "Copies the rows that exist while the feed runs. What becomes of rows that the target holds already?";
const STOP = "Its process ends in order. Nothing is applied until it is started again.";
const DONE = "Go on behind this statement: its change was made by hand at the target.";
const SKIP = "Go on behind this statement WITHOUT its change at the target.";
const REPAIR = "The feed writes the rows again that its newest verify has found to differ.";

export function feedPage(root, name, { state, may, named, failed }) {
  const stop = new AbortController();
  const figures = h("div", { class: "figures" });
  const way = h("figure");
  const lag = h("figure");
  const rate = h("figure");
  const halt = h("div", { role: "alert" });
  const says = h("p");
  const facts = h("dl");
  const file = h("details", {}, h("summary", {}, "Keys of its file"));
  const copies = table(
    "Copies by table",
    [
      { title: "Table", cell: (one) => one.table },
      { title: "Chunks", number: true, cell: (one) => `${number(one.merged)} of ${number(one.chunks)}` },
      { title: "On the way", number: true, cell: (one) => number((one.reading ?? 0) + (one.staged ?? 0)) },
      { title: "Rows", number: true, cell: (one) => number((one.before ?? 0) + one.rows) },
      { title: "State", long: true, cell: copyState },
    ],
    (one) => one.table,
  );
  const copying = h("section", { hidden: true }, copies.node);
  const more = [["lanes", "Lanes"], ["rows", "Failed rows"], ["conflicts", "Conflicts"]];
  const links = h("p", { class: "bar" }, more.map(([page, words]) => h("a", { href: at(page, name) }, words)));
  root.append(halt, buttons(), says, figures, way, h("div", { class: "charts" }, lag, rate), copying, facts, links, file);
  let lookedAt = "";

  const feed = () => state.feeds.find((one) => one.name === name);

  function update() {
    const one = feed();
    if (!one) return say(says, state.known ? `There is no feed ${name} in the folder.` : "");
    const sample = one.running ? one.sample : null;
    say(says, halt.hasChildNodes() ? "" : wordsOf(one));
    drawFigures(one, sample);
    way.replaceChildren(h("figcaption", {}, "The way of the rows"), topology(one, sample ? sample.lanes : null));
    const points = state.history.get(name) ?? [];
    drawPlot(lag, "Lag", points.map((point) => [point.now, point.lag]), span);
    drawPlot(rate, "Rows per second", points.map((point) => [point.now, point.rate]), number);
    if (sample?.copies?.length) showCopies(sample.copies);
    const sign = `${one.state} ${one.starts} ${one.exit_code} ${sample?.state === "halted"}`;
    if (sign !== lookedAt) {
      lookedAt = sign;
      lookCloser(one);
    }
  }

  function drawFigures(one, sample) {
    const { text, tone } = stateOf(one);
    const told = [
      ["State", text, tone],
      ["Lag", sample ? span(sample.lag_seconds) : "unknown"],
      ["Rows per second", sample ? number(sample.rows_per_second) : "unknown"],
      ["Failed rows", sample ? number(sample.failed_rows) : "unknown", sample?.failed_rows ? "bad" : ""],
      ["Rows since it began", sample ? number(sample.rows_total) : "unknown"],
      ["Locks", sample ? `${number(sample.locks_held)}` : "unknown"],
    ];
    figures.replaceChildren(
      ...told.map(([label, value, tone]) => h("div", {}, h("span", { class: "quiet" }, label), h("b", { class: tone || null }, value))),
    );
    facts.replaceChildren(
      ...[
        ["Position", sample?.position],
        ["File", one.file],
        ["Process", `${one.running ? "runs" : "none"}, started ${counted(one.starts, "time")}${exit(one)}`],
        ["Retries, restarts", sample && `${number(sample.retries_total)}, ${number(sample.restarts)}`],
        ["Slot", sample?.slot && `${sample.slot.name}: ${sample.slot.wal_status || "missing"}`],
      ]
        .filter(([, value]) => value)
        .flatMap(([label, value]) => [h("dt", {}, label), h("dd", {}, value)]),
    );
  }

  function showCopies(found) {
    copying.hidden = !found.length;
    copies.update(found);
  }

  async function lookCloser(one) {
    const quiet = (error) => error.name === "AbortError" || say(says, `${wordsOf(one)} (${error.message})`);
    get(of(name), stop.signal).then(showFile).catch(quiet);
    if (one.state === "cannot be read") return;
    get(of(name, "/halt"), stop.signal).then(showHalt).catch(quiet);
    if (!one.sample?.copies?.length) get(of(name, "/copy"), stop.signal).then((told) => showCopies(told ?? [])).catch(quiet);
  }

  function showFile(told) {
    const text = JSON.stringify(told.config, null, 1);
    file.replaceChildren(h("summary", {}, "Keys of its file"), h("pre", {}, text));
  }

  function showHalt(halted) {
    if (!halted) return halt.replaceChildren();
    say(says, "");
    const [, message, hint, position, tableName] = halted.alarm;
    const statement = halted.ddl?.[1];
    const where = [tableName && `Table ${tableName}.`, position && `At ${position}.`].filter(Boolean).join(" ");
    halt.replaceChildren(
      h(
        "div",
        { class: "halt" },
        h("h2", {}, "Halted"),
        h("p", {}, message),
        where && h("p", { class: "quiet" }, where),
        h("p", {}, h("b", {}, "What to do: "), ...codes(hint, feed()?.file ?? "FEED")),
        statement && h("pre", {}, statement),
        statement && h("p", { class: "bar" }, act("Done by hand", "/ddl/done", DONE), act("Skip it", "/ddl/skip", SKIP)),
      ),
    );
  }

  // ------------------------------------------------------------------ what may be asked

  function buttons() {
    const made = [
      act("Start", "/start"),
      act("Stop", "/stop", STOP),
      act("Restart", "/restart", "Its process ends in order, and another one is started."),
      act("Pause", "/pause"),
      act("Resume", "/resume"),
      act("Check", "/check", "", {}, true),
      act("Verify", "/verify", "", {}, true),
      act("Repair", "/repair", REPAIR, {}, true),
      allowed("/copy") && h("button", { type: "button", click: copy }, "Copy"),
    ].filter(Boolean);
    if (made.length) return h("div", { class: "bar", role: "group", "aria-label": "What may be asked of the feed" }, made);
    const words = named() ? `${named()} has the role ${state.who.role}` : "a token lets you act";
    return h("p", { class: "quiet" }, `Read only: ${words}.`);
  }

  function allowed(path) {
    return may(`/feeds/{feed}${path}`);
  }

  /** A button, or null where who looks may not. */
  function act(label, path, question = "", body = {}, job = false) {
    if (!allowed(path)) return null;
    const click = async () => {
      if (question && !(await ask(`${label}: ${name}`, h("p", {}, question), [["yes", label]]))) return;
      send(label, path, body, job);
    };
    return h("button", { type: "button", click }, label);
  }

  async function copy() {
    const choices = [["keep", "Keep them"], ["replace", "Replace them"]];
    const chosen = await ask(`Copy: ${name}`, h("p", {}, COPY), choices);
    if (chosen) send("Copy", "/copy", { [chosen]: true }, true);
  }

  async function send(label, path, body, job) {
    try {
      const answer = await post(of(name, path), body);
      notice(`${label}: asked for`);
      if (job) location.hash = `#/jobs/${answer.job}`;
      lookedAt = "";
      update();
    } catch (error) {
      failed(error);
    }
  }

  return { update, close: () => stop.abort() };
}

function drawPlot(figure, title, points, spell) {
  figure.replaceChildren(h("figcaption", {}, title), plot(points, spell));
}

const exit = (one) => (one.exit_code == null ? "" : `, ended last with exit code ${one.exit_code}`);

function copyState(one) {
  if (one.refused) return { text: one.refused, tone: "bad" };
  if (one.queued) return "queued";
  return one.merged === one.chunks ? { text: "copied", tone: "good" } : "is copied";
}

/** Text with `commands` between backticks as code; FEED in them is the feed's file. */
function codes(text, file) {
  return text.split("`").map((part, at) => (at % 2 ? h("code", {}, part.replaceAll(/\bFEED\b/g, file)) : part));
}

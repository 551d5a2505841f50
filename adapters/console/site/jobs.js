// Jobs: check, copy, verify and repair that were begun here or by the API, with their reports.

import { h, notice, number, say, span, table, when } from "./dom.js";
import { get, post } from "./server.js";

const EACH_MS = 2000;
const CODES = { 0: "ok", 1: "refused, or a server is away", 2: "usage", 3: "differences", 4: "an operator is needed" };
const MOST_ROWS = 200;

export function jobsPage(root, chosen, { may, failed }) {
  const stop = new AbortController();
  let timer = 0;
  let shown = "";
  const words = h("p", { role: "status" });
  const report = h("section", { "aria-label": "Report" });
  const columns = [
    { title: "Job", cell: (one) => ({ text: `${one.id}`, href: `#/jobs/${one.id}` }) },
    { title: "Command", cell: (one) => one.command },
    { title: "Feed", cell: (one) => one.feed },
    { title: "State", cell: stateOf },
    { title: "Began (UTC)", wide: true, cell: (one) => when(one.began) },
    { title: "Took", number: true, wide: true, cell: (one) => (one.ended == null ? "" : span(one.ended - one.began)) },
    { title: "Actions", cell: (one) => (one.state === "runs" && may("/jobs/{job}/end") ? { buttons: [{ label: "End it", press: end }] } : "") },
  ];
  const jobs = table("Jobs, the newest first", columns, (one) => one.id);
  root.append(words, jobs.node, report);

  async function look() {
    try {
      const told = await get("/jobs", stop.signal);
      jobs.update(told.jobs, "No job was begun since `serve` began. A feed's page begins one.");
      say(words, "");
      const one = told.jobs.find((job) => `${job.id}` === chosen);
      if (chosen && one && shown !== one.state) {
        shown = one.state;
        showReport(await get(`/jobs/${chosen}`, stop.signal));
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      say(words, error.message);
    }
    if (!stop.signal.aborted) timer = setTimeout(look, EACH_MS);
  }

  function showReport(job) {
    const parts = [h("h2", {}, `Job ${job.id}: ${job.command} of ${job.feed}`), h("p", {}, stateOf(job).text)];
    if (job.error) parts.push(h("p", { class: "bad" }, job.error));
    if (job.report != null) parts.push(told(job.report), raw(job.report));
    report.replaceChildren(...parts);
  }

  async function end(job) {
    try {
      await post(`/jobs/${job.id}/end`);
      notice(`job ${job.id} is ended`);
    } catch (error) {
      failed(error);
    }
  }

  look();
  return {
    close: () => {
      clearTimeout(timer);
      stop.abort();
    },
  };
}

function stateOf(job) {
  if (job.state === "runs") return { text: "runs", tone: "" };
  const code = job.exit_code == null ? "" : `: ${CODES[job.exit_code] ?? `exit code ${job.exit_code}`}`;
  return { text: `${job.state}${code}`, tone: job.exit_code === 0 ? "good" : "bad" };
}

/** A value in one line; `name`: a place in the log is an array of its parts, of which two are for people. */
function flat(value, name = "") {
  if (Array.isArray(value) && value.every((one) => one === null || typeof one !== "object")) {
    return name === "position" || name === "since" ? `${value[0]}:${value[1]}` : value.join(", ");
  }
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value ?? "");
}

/** A report as people read it: lists of objects as tables, the rest as facts. */
function told(report) {
  if (Array.isArray(report)) return list("Report", report);
  if (report === null || typeof report !== "object") return h("p", {}, flat(report));
  const entries = Object.entries(report);
  const lists = entries.filter(([, value]) => Array.isArray(value) && value.length && typeof value[0] === "object");
  const facts = entries.filter(([name, value]) => flat(value) && !lists.some(([other]) => other === name));
  return h(
    "div",
    {},
    h("dl", {}, facts.map(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, flat(value, name))])),
    lists.map(([name, values]) => list(name.replaceAll("_", " "), values)),
  );
}

function list(name, values) {
  const objects = values.filter((one) => one !== null && typeof one === "object" && !Array.isArray(one));
  if (objects.length !== values.length) return h("p", {}, flat(values));
  const names = [...new Set(objects.flatMap(Object.keys))].filter((one) => !["unsettled", "parked", "wish"].includes(one));
  const columns = names.map((one) => ({
    title: one.replaceAll("_", " "),
    number: objects.every((row) => typeof row[one] === "number"),
    long: objects.some((row) => typeof row[one] === "object"),
    cell: (row) => (typeof row.value[one] === "number" ? number(row.value[one]) : flat(row.value[one])),
  }));
  const rows = table(`${name}, ${number(objects.length)}`, columns, (row) => row.at);
  rows.update(objects.slice(0, MOST_ROWS).map((value, at) => ({ value, at })));
  return rows.node;
}

function raw(report) {
  return h("details", {}, h("summary", {}, "As JSON"), h("pre", {}, JSON.stringify(report, null, 1).slice(0, 200000)));
}

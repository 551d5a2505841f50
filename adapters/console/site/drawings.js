// Drawings as SVG: the way of the rows, and plots over time.

import { number, span } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_LANES = 24;

function s(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value != null) node.setAttribute(name, value);
  node.append(...children.map((one) => (one instanceof Node ? one : String(one))));
  return node;
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function end(x, y, name, address, more) {
  const [kind, place] = address.split("://");
  const lines = [place ?? "", ...more];
  const [width, height] = [206, 30 + 16 * lines.length];
  return s(
    "g",
    {},
    s("rect", { class: "box", x, y: y - height / 2, width, height, rx: 6 }),
    s("text", { x: x + 10, y: y - height / 2 + 20 }, `${name}: ${kind}`),
    ...lines.map((line, at) =>
      s("text", { class: "quiet", x: x + 10, y: y - height / 2 + 38 + 16 * at }, s("title", {}, line), cut(line, 28)),
    ),
  );
}

/** Source, lanes with the rows in each, target.  `lanes`: rows by lane, null where nobody tells them. */
export function topology(feed, lanes) {
  const shownLanes = (lanes ?? []).slice(0, MOST_LANES);
  const more = (lanes ?? []).length - shownLanes.length;
  const step = shownLanes.length > 12 ? 14 : 20;
  const height = Math.max(120, 50 + step * Math.max(1, shownLanes.length) + (more ? 16 : 0));
  const middle = height / 2;
  const fullest = Math.max(1, ...shownLanes);
  const first = middle - (step * (shownLanes.length - 1)) / 2;
  const parts = [];
  shownLanes.forEach((rows, lane) => {
    const y = first + step * lane;
    parts.push(
      s("path", { class: "flow", d: `M210 ${middle}C260 ${middle} 250 ${y} 290 ${y}M530 ${y}C570 ${y} 560 ${middle} 610 ${middle}` }),
      s("text", { class: "quiet", x: 295, y: y + 4 }, `lane ${lane}`),
      s("rect", { class: "none", x: 350, y: y - 3, width: 110, height: 6, rx: 3 }),
      s("rect", { class: "rows", x: 350, y: y - 5, width: rows ? Math.max(2, (110 * rows) / fullest) : 0, height: 10, rx: 3 }),
      s("text", { x: 525, y: y + 4, "text-anchor": "end" }, number(rows)),
    );
  });
  if (!shownLanes.length) {
    parts.push(
      s("path", { class: "flow", "stroke-dasharray": "4 4", d: `M210 ${middle}H610` }),
      s("text", { class: "quiet", x: 410, y: middle - 8, "text-anchor": "middle" }, "nothing runs"),
    );
  }
  if (more) parts.push(s("text", { class: "quiet", x: 350, y: height - 8 }, `and ${more} more lanes`));
  const told = shownLanes.length
    ? `${shownLanes.length + more} lanes with ${number(lanes.reduce((sum, rows) => sum + rows, 0))} rows`
    : "nothing runs";
  const label = `From ${feed.source} through ${told} to ${feed.target}`;
  return s(
    "svg",
    { viewBox: `0 0 820 ${height}`, role: "img", "aria-label": label },
    ...parts,
    end(4, middle, "source", feed.source, [...feed.tables.slice(0, 2), ...(feed.tables.length > 2 ? ["…"] : [])]),
    end(610, middle, "target", feed.target, []),
  );
}

/** A plot of values over time; `points`: [[seconds, value or null], …], gaps where a value is null. */
export function plot(points, spell) {
  const [width, height, left, top] = [560, 130, 4, 18];
  const values = points.map((one) => one[1]).filter((one) => one != null);
  const most = Math.max(...values, 0);
  const from = points.length ? points[0][0] : 0;
  const length = Math.max(1, points.length ? points.at(-1)[0] - from : 1);
  let way = "";
  let gap = true;
  for (const [time, value] of points) {
    if (value == null) {
      gap = true;
      continue;
    }
    const x = left + ((width - 2 * left) * (time - from)) / length;
    const y = height - 18 - ((height - 18 - top) * value) / (most || 1);
    way += `${gap ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
    gap = false;
  }
  const last = points.at(-1)?.[1];
  const now = last == null ? "unknown" : spell(last);
  const told = values.length ? `now ${now}, at most ${spell(most)} within ${span(length)}` : "nothing was seen yet";
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": told },
    s("path", { class: "axis", d: `M${left} ${height - 18}H${width - left}M${left} ${top}H${width - left}` }),
    s("path", { class: "plot", d: way }),
    s("text", { class: "quiet", x: left, y: 11 }, values.length ? spell(most) : ""),
    s("text", { class: "quiet", x: left, y: height - 4 }, values.length ? `${span(length)} ago` : ""),
    s("text", { x: width - left, y: 11, "text-anchor": "end" }, now),
  );
}

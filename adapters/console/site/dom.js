// Elements, tables and figures.  Data becomes text nodes alone: no markup is ever made of it.

/** Makes an element.  `attributes`: functions listen, true and false switch; `children`: nodes, text, arrays of them. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(node, child);
    else if (child != null && child !== false) node.append(child instanceof Node ? child : String(child));
  }
}

/** Puts text into a node where it is another than before, so that nothing is announced or selected anew. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * A table that keeps its rows: `update` changes only the cells that are others.
 * `columns`: {title, cell, number, wide, long}; a cell is text, or {text, href, tone} or {buttons: [{label, press}]}.
 */
export function table(caption, columns, key) {
  const rows = new Map();
  const body = h("tbody");
  const none = h("p", { class: "quiet", hidden: true });
  const style = (one) => [one.number && "number", one.wide && "wide", one.long && "long"].filter(Boolean).join(" ");
  const heads = columns.map((one) => h("th", { scope: "col", class: style(one) || null }, one.title));
  const whole = h("table", {}, h("caption", {}, h("h2", {}, caption)), h("thead", {}, h("tr", {}, heads)), body);
  const scroll = h("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption }, whole);
  const made = (item) => {
    const cells = columns.map((one) => ({ node: h("td", { class: style(one) || null }), sign: null }));
    return { node: h("tr", {}, cells.map((one) => one.node)), cells, item };
  };
  const fill = (row, item) => {
    row.item = item;
    columns.forEach((one, at) => {
      const told = one.cell(item);
      const sign = JSON.stringify(told ?? "");
      if (row.cells[at].sign === sign) return;
      row.cells[at].sign = sign;
      row.cells[at].node.replaceChildren(...shown(told, () => row.item));
    });
  };
  function update(items, empty) {
    const left = new Set(rows.keys());
    let before = null;
    for (const item of items) {
      const name = key(item);
      if (!rows.has(name)) rows.set(name, made(item));
      const row = rows.get(name);
      left.delete(name);
      fill(row, item);
      const place = before ? before.nextSibling : body.firstChild;
      if (place !== row.node) body.insertBefore(row.node, place);
      before = row.node;
    }
    for (const name of left) {
      rows.get(name).node.remove();
      rows.delete(name);
    }
    scroll.hidden = !items.length;
    none.hidden = Boolean(items.length);
    say(none, empty ?? "Nothing.");
  }
  return { node: h("div", {}, scroll, none), update };
}

function shown(told, item) {
  if (told == null || told === "") return [];
  if (typeof told !== "object") return [String(told)];
  if (told.buttons) {
    return told.buttons.map((one) => h("button", { type: "button", click: () => one.press(item()) }, one.label));
  }
  if (told.href) return [h("a", { href: told.href, class: told.tone || null }, told.text)];
  return [h("span", { class: told.tone || null }, told.text)];
}

/** Asks in a dialog; gives what was chosen, or "" for no.  `choices`: [[value, label], …], the first is the main one. */
export function ask(title, content, choices) {
  return new Promise((resolve) => {
    const buttons = choices.map(([value, label], at) => h("button", { value, class: at ? null : "main" }, label));
    const bar = h("div", { class: "bar" }, buttons, h("button", { value: "", type: "submit" }, choices.length ? "Cancel" : "Close"));
    const box = h(
      "dialog",
      { "aria-labelledby": "asked" },
      h("form", { method: "dialog" }, h("h2", { id: "asked" }, title), content, bar),
    );
    box.addEventListener("close", () => {
      box.remove();
      resolve(box.returnValue);
    });
    document.body.append(box);
    box.showModal();
  });
}

export function notice(text, tone = "") {
  const one = h("p", { class: tone || null }, text);
  document.getElementById("notices").append(one);
  setTimeout(() => one.remove(), tone === "bad" ? 20000 : 8000);
}

const grouped = new Intl.NumberFormat("en");
export const number = (value) => (value == null ? "" : grouped.format(Math.round(value)));

/** Spells seconds: `0.4 s`, `12 s`, `3 min`, `5 h`, `2 d`. */
export function span(seconds) {
  if (seconds == null) return "unknown";
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

/** Spells a count: `1 row`, `1,200 rows`. */
export const counted = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

export const when = (time) => (time == null ? "" : new Date(time * 1000).toISOString().replace("T", " ").slice(0, 19));

/** The path of a page of a feed; names are those of files or feeds, so they are encoded. */
export const at = (page, name) => `#/${page}/${encodeURIComponent(name)}`;

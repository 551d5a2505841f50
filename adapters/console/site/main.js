// The frame: which page is shown, the stream that feeds it, the token, and the keys.

import { ask, at, h, notice, say } from "./dom.js";
import { follow, get, setToken, token } from "./server.js";
import { feedPage } from "./feed.js";
import { feedsPage } from "./feeds.js";
import { jobsPage } from "./jobs.js";
import { lanesPage } from "./lanes.js";
import { conflictsPage, rowsPage } from "./rows.js";

const MOST_POINTS = 600;
const PAGES = {
  feeds: { title: "Feeds", key: "f", make: feedsPage },
  feed: { title: "Feed", of: true, make: feedPage },
  lanes: { title: "Lanes", key: "l", of: true, make: lanesPage },
  rows: { title: "Failed rows", key: "r", of: true, make: rowsPage },
  conflicts: { title: "Conflicts", key: "c", of: true, make: conflictsPage },
  jobs: { title: "Jobs", key: "j", make: jobsPage },
};
const NOBODY = { name: "", role: "", may: [] };
const state = { feeds: [], known: false, history: new Map(), feed: "", who: NOBODY };
const main = document.getElementById("content");
let page = null;
let asking = false;

const context = {
  state,
  may: (path) => state.who.may.includes(path),
  named,
  failed: (error) => {
    notice(error.message, "bad");
    if (error.status === 401) askToken();
  },
};

/** Who looks, by a token or a certificate; "" where neither was needed. */
function named() {
  return state.who.name === "loopback" ? "" : state.who.name;
}

// ------------------------------------------------------------------ pages

function place() {
  const [, name, ...rest] = location.hash.split("/");
  const known = Object.hasOwn(PAGES, name) ? name : "feeds";
  try {
    return { name: known, of: decodeURIComponent(rest.join("/")) };
  } catch {
    return { name: known, of: "" };
  }
}

function show() {
  const { name, of } = place();
  const { title, of: hasFeed, make } = PAGES[name];
  page?.close?.();
  if (hasFeed) state.feed = of || state.feed || state.feeds[0]?.name || "";
  const feed = hasFeed ? state.feed : of;
  const words = feed ? `${title}: ${feed}` : title;
  document.title = `${words} – Tidelock`;
  const head = h("h1", { tabindex: "-1" }, words);
  const root = h("div");
  main.replaceChildren(head, ...(hasFeed && name !== "feed" ? [chooser(name)] : []), root);
  page = make(root, feed, context);
  links(name);
  if (state.known) page.update?.();
  head.focus({ preventScroll: true });
}

function chooser(name) {
  const choose = (event) => (location.hash = at(name, event.target.value));
  const options = state.feeds.map((one) => h("option", { value: one.name, selected: one.name === state.feed }, one.name));
  return h("p", { class: "bar" }, h("label", {}, "Feed", h("select", { change: choose, id: "choose" }, options)));
}

function links(current) {
  const made = Object.entries(PAGES)
    .filter(([, one]) => one.key)
    .map(([name, one]) => {
      const href = one.of && state.feed ? at(name, state.feed) : `#/${name}`;
      return h("a", { href, "aria-current": name === current ? "page" : null, "aria-keyshortcuts": one.key }, one.title);
    });
  document.getElementById("pages").replaceChildren(...made);
}

// ------------------------------------------------------------------ the stream

function told(feeds) {
  const first = !state.known;
  const names = feeds.map((one) => one.name).join("\n");
  const changed = names !== state.feeds.map((one) => one.name).join("\n");
  state.feeds = feeds;
  state.known = true;
  const now = Date.now() / 1000;
  for (const { name, sample } of feeds) {
    const points = state.history.get(name) ?? [];
    points.push({ now, lag: sample?.lag_seconds ?? null, rate: sample?.rows_per_second ?? null });
    if (points.length > MOST_POINTS) points.shift();
    state.history.set(name, points);
  }
  for (const name of state.history.keys()) if (!feeds.some((one) => one.name === name)) state.history.delete(name);
  if (first || (changed && document.getElementById("choose"))) show();
  else page?.update?.();
}

function connection(words, refusal) {
  say(document.getElementById("connection"), words);
  if (!refusal) learn();
  if (refusal && refusal.status === 401) askToken();
}

/** Asks what the token, or the browser's certificate, may, and shows the buttons for that. */
async function learn() {
  const before = sign();
  state.who = await get("/who").catch(() => NOBODY);
  if (sign() !== before) show();
}

const sign = () => JSON.stringify([named(), state.who.may]);

const again = follow(told, connection);

// ------------------------------------------------------------------ the token

function tokenButton() {
  say(document.getElementById("token"), token() ? "Forget the token" : "Give a token");
}

async function askToken() {
  if (asking) return;
  asking = true;
  const field = h("input", { type: "password", id: "given", autocomplete: "off", required: true });
  const text = "From the file of `tidelock serve --token-file`. It is kept until this tab is closed.";
  const chosen = await ask("A token", [h("p", {}, text), h("label", {}, "Token", field)], [["use", "Use it"]]);
  asking = false;
  if (chosen === "use") useToken(field.value.trim());
}

function useToken(text) {
  setToken(text);
  state.who = NOBODY;
  tokenButton();
  again();
  show();
}

// ------------------------------------------------------------------ keys

const OFF = "tidelock keys off";

async function help() {
  if (document.querySelector("dialog")) return;
  const keys = [
    ...Object.values(PAGES).filter((one) => one.key).map((one) => [one.key, one.title]),
    ["/", "Filter the feeds"],
    ["t", "Give or forget the token"],
    ["?", "This list"],
    ["Esc", "Close a dialog"],
  ];
  const off = h("input", {
    type: "checkbox",
    checked: !sessionStorage.getItem(OFF),
    change: (event) => (event.target.checked ? sessionStorage.removeItem(OFF) : sessionStorage.setItem(OFF, "1")),
  });
  const list = keys.map(([key, words]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, words)]);
  await ask("Keys", [h("dl", {}, list), h("label", { class: "line" }, off, "Letters are shortcuts")], []);
}

function pressed(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input:not([type=checkbox]), select, textarea")) return;
  if (key === "?") return void help();
  if (document.querySelector("dialog") || sessionStorage.getItem(OFF)) return;
  const filter = document.getElementById("filter");
  const found = Object.entries(PAGES).find(([, one]) => one.key === key);
  if (found) location.hash = found[1].of && state.feed ? at(found[0], state.feed) : `#/${found[0]}`;
  else if (key === "t") document.getElementById("token").click();
  else if (key === "/" && filter) filter.focus();
  else return;
  event.preventDefault();
}

document.addEventListener("keydown", pressed);
document.getElementById("help").addEventListener("click", help);
document.getElementById("token").addEventListener("click", () => (token() ? useToken("") : askToken()));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", show);
tokenButton();
show();

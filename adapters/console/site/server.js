// What is asked of the server: the JSON API and its stream of events.  The token is kept for this tab alone.

const ROOT = "api/v1";
const KEPT = "tidelock token";

export const token = () => sessionStorage.getItem(KEPT) ?? "";
export const setToken = (text) => (text ? sessionStorage.setItem(KEPT, text) : sessionStorage.removeItem(KEPT));

export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

function headers(body) {
  const made = body === undefined ? {} : { "Content-Type": "application/json" };
  if (token()) made.Authorization = `Bearer ${token()}`;
  return made;
}

async function asked(path, options) {
  let answer;
  try {
    answer = await fetch(ROOT + path, { ...options, cache: "no-store", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the server does not answer");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, told.error ?? `the server answers ${answer.status}`);
}

export async function get(path, signal) {
  return (await asked(path, { headers: headers(), signal })).json();
}

export async function post(path, body = {}) {
  return (await asked(path, { method: "POST", headers: headers(body), body: JSON.stringify(body) })).json();
}

export const of = (feed, rest = "") => `/feeds/${encodeURIComponent(feed)}${rest}`;

/** Follows the stream of feeds; `told(feeds)` for each state, `changed(words, refusal)` when it stands or breaks. */
export function follow(told, changed) {
  let stop = new AbortController();
  let wait = 1000;
  let timer = 0;
  async function run() {
    stop = new AbortController();
    const { signal } = stop;
    try {
      const answer = await asked("/events", { headers: headers(), signal });
      changed("live", null);
      for await (const event of events(answer.body)) {
        wait = 1000;
        if (event.name === "feeds") told(JSON.parse(event.data).feeds);
      }
      throw new Refused(0, "the stream has ended");
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) return changed("not connected: a token is needed", error);
      changed(`not connected: ${error.message}; tried again in ${wait / 1000} s`, error);
      timer = setTimeout(run, wait);
      wait = Math.min(2 * wait, 16000);
    }
  }
  function again() {
    clearTimeout(timer);
    stop.abort();
    wait = 1000;
    run();
  }
  run();
  return again;
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (kept + value).split("\n\n");
    kept = parts.pop();
    for (const part of parts) {
      const event = { name: "message", data: "" };
      for (const line of part.split("\n")) {
        if (line.startsWith("event:")) event.name = line.slice(6).trim();
        else if (line.startsWith("data:")) event.data += line.slice(5).trim();
      }
      yield event;
    }
  }
}

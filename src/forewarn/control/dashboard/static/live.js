// Live updates: when the service tells of a change, the page is fetched again and its regions that differ are replaced.
import { text } from "./texts.js";
import { setClock } from "./times.js";

const QUIET = 60; // ms: changes that come together cause one fetch
const RETRY = 1000;
const SILENCE = 40_000; // the service sends something every 15 s
const regions = new Map(); // the HTML of each region as the service sent it, before times were made local
let isReplaced = false; // whether the page shows an error instead of its own content

// Follow the changes; return a function that shows the page of the present address at once.
export function follow(prepare) {
  const status = document.getElementById("connection");
  const every = Number(document.querySelector("[data-every]")?.dataset.every ?? 0) * 1000;
  let timer = null;
  let current = null; // what stops the fetch that is under way
  let again = false;
  let source = null;
  let silence = null;
  let next = 0; // not before this time: a page that takes long to render is fetched less often

  function show(isConnected) {
    status.classList.toggle("lost", !isConnected);
    status.textContent = text(isConnected ? "connected" : "disconnected");
  }

  function connect() {
    source = new EventSource("/v1/changes?beats=true");
    const change = () => { listen(); schedule(); };
    source.onopen = () => { show(true); change(); };
    source.onerror = reconnect;
    source.addEventListener("beat", () => { listen(); if (status.classList.contains("lost")) schedule(); });
    for (const kind of document.body.dataset.kinds.split(" ")) source.addEventListener(kind, change);
    source.onmessage = change;
    listen();
  }

  function reconnect() {
    show(false);
    clearTimeout(silence);
    source.close();
    schedule(); // the page then tells whether the session has ended
    setTimeout(connect, RETRY);
  }

  // A connection can be lost without an end, as when a cable is pulled.
  function listen() {
    clearTimeout(silence);
    silence = setTimeout(() => { current?.abort(); reconnect(); }, SILENCE);
  }

  function schedule() {
    if (document.hidden) { again = true; return; }
    timer ??= setTimeout(refresh, Math.max(QUIET, next - performance.now()));
  }

  async function refresh() {
    timer = null;
    if (current) { again = true; return; }
    again = false;
    await load();
  }

  // Fetch the page and show it; return whether that was done. A later call replaces one that is under way.
  async function load() {
    current?.abort();
    const mine = current = new AbortController();
    const began = performance.now();
    try {
      const response = await fetch(location.href, { headers: { Accept: "text/html" }, signal: mine.signal });
      const to = new URL(response.url);
      if (response.redirected && to.pathname === "/login") { leave(to); return true; }
      const content = await response.text();
      if (source.readyState === EventSource.OPEN) show(true); // a fetch before this one may have failed
      if (response.ok) { if (replace(content, prepare)) again = true; }
      else if (response.status === 403 || response.status === 404) replaceMain(content);
      return response.ok;
    } catch {
      if (mine.signal.aborted) return true;
      show(false);
      return true;
    } finally {
      if (current === mine) {
        current = null;
        next = performance.now() + 2 * (performance.now() - began);
        if (again && !document.hidden && !isEditing(document.body)) schedule();
      }
    }
  }

  document.addEventListener("visibilitychange", () => { if (!document.hidden && again) schedule(); });
  document.addEventListener("focusout", () => { if (again) setTimeout(schedule); });
  addEventListener("pagehide", () => source.close());
  if (every) setInterval(schedule, every);
  connect();
  return load;
}

// The session has ended. A dialog may show what is shown only once, such as the new secret of the token of the session.
function leave(to) {
  const dialog = document.querySelector("dialog[open]");
  if (dialog) dialog.addEventListener("close", () => location.assign(to), { once: true });
  else location.assign(to);
}

// Remember what the service sent; it must run before times are made local.
export function rememberRegions(root = document) {
  for (const region of root.querySelectorAll("[data-region]")) regions.set(region.dataset.region, region.innerHTML);
}

function isEditing(region) {
  const active = document.activeElement;
  return region.contains(active) && active.matches('input:not([type="checkbox"], [type="radio"]), textarea, select');
}

function replaceMain(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  document.querySelector("main").replaceChildren(...fresh.querySelector("main").children);
  document.title = fresh.title;
  isReplaced = true;
}

// Return whether a region was left as it is because somebody types into it.
function replace(html, prepare) {
  if (isReplaced) { location.reload(); return false; }
  const fresh = new DOMParser().parseFromString(html, "text/html");
  setClock(fresh.body);
  let isChanged = false;
  let isLeft = false;
  for (const region of document.querySelectorAll("[data-region]")) {
    const found = fresh.querySelector(`[data-region="${region.dataset.region}"]`);
    const next = found?.innerHTML;
    if (next === undefined || regions.get(region.dataset.region) === next) continue;
    if (isEditing(region)) { isLeft = true; continue; }
    regions.set(region.dataset.region, next);
    const focused = region.contains(document.activeElement) ? pathOf(document.activeElement, region) : null;
    const open = [...region.querySelectorAll("details")].map((each) => each.open);
    const scrolled = [...region.querySelectorAll(".scroll, pre")].map((each) => [each.scrollLeft, each.scrollTop]);
    region.replaceChildren(...found.childNodes); // they are parsed already
    [...region.querySelectorAll("details")].forEach((each, number) => { if (number < open.length) each.open = open[number]; });
    [...region.querySelectorAll(".scroll, pre")].forEach((each, number) => { if (number < scrolled.length) [each.scrollLeft, each.scrollTop] = scrolled[number]; });
    if (focused) find(focused, region)?.focus({ preventScroll: true });
    isChanged = true;
  }
  if (isChanged) prepare();
  return isLeft;
}

// A link, a button or a box is found again by what it is, and not by its place, which may have changed.
function pathOf(element, region) {
  const path = [];
  for (let each = element; each !== region; each = each.parentElement) path.unshift([...each.parentElement.children].indexOf(each));
  return [keyOf(element), path];
}

function keyOf(element) {
  return [element.tagName, element.getAttribute("href"), element.dataset?.path, element.dataset?.body, element.getAttribute("value"), element.textContent].join("\n");
}

function find([key, path], region) {
  const same = [...region.querySelectorAll("a, button, input, summary")].find((each) => keyOf(each) === key);
  return same ?? path.reduce((each, number) => each?.children[number], region);
}

// The timeline: bars by lane as SVG; zoom and pan by buttons, keys, Ctrl and wheel, and dragging; the time goes on in it.
import { text } from "./texts.js";
import { left as timeLeft, now as present, shown, zoned } from "./times.js";

const NAMES = "http://www.w3.org/2000/svg";
const UNIT = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; // texts are larger on a wall display
const ROW = 24 * UNIT;
const TOP = 28 * UNIT;
const LETTER = 7 * UNIT; // about the width of one
const NARROW = 640;
const HOUR = 3600;
const STEPS = [10, 30, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400];
let view = null; // [begin, end] in seconds
let bars = [];
let moving = []; // what changes with the time: functions of it
let ticking = null;
let dragged = false;

function node(name, attributes, ...children) {
  const made = document.createElementNS(NAMES, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const seconds = () => present() / 1000;

export function drawTimeline() {
  const svg = document.getElementById("timeline");
  const data = document.getElementById("timeline-data");
  if (!svg || !data) return;
  bars = JSON.parse(data.textContent);
  svg.setAttribute("aria-label", document.getElementById("timeline-total").textContent);
  if (!view) showNow();
  const redraw = () => paint(svg);
  if (!ticking) {
    ticking = setInterval(() => moving.forEach((move) => move(seconds())), 1000);
    listen(svg, redraw);
  }
  redraw();
}

function listen(svg, redraw) {
  let from = null;
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // the page scrolls
    event.preventDefault();
    const left = leftOf(svg);
    zoom(event.deltaY > 0 ? 1.25 : 0.8, view[0] + ((event.clientX - svg.getBoundingClientRect().x - left) / Math.max(1, svg.clientWidth - left)) * (view[1] - view[0]));
    redraw();
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => { from = [event.clientX, view]; dragged = false; });
  addEventListener("pointermove", (event) => {
    if (!from || Math.abs(event.clientX - from[0]) < 4 && !dragged) return;
    dragged = true;
    const by = ((from[0] - event.clientX) / Math.max(1, svg.clientWidth - leftOf(svg))) * (from[1][1] - from[1][0]);
    view = [from[1][0] + by, from[1][1] + by];
    redraw();
  });
  addEventListener("pointerup", () => { from = null; });
  addEventListener("pointercancel", () => { from = null; });
  svg.addEventListener("click", (event) => { if (dragged) event.preventDefault(); dragged = false; });
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  addEventListener("resize", redraw);
  document.addEventListener("zonechange", redraw);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, textarea, select, dialog")) return;
    const act = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5), "-": () => zoom(2) }[event.key];
    if (act) { event.preventDefault(); act(); redraw(); }
  });
  for (const button of document.querySelectorAll("[data-pan]")) button.onclick = () => { pan(Number(button.dataset.pan) * 0.5); redraw(); };
  for (const button of document.querySelectorAll("[data-zoom]")) button.onclick = () => { zoom(Number(button.dataset.zoom)); redraw(); };
  for (const button of document.querySelectorAll("[data-show]")) button.onclick = () => { button.dataset.show === "all" ? showAll() : showNow(); redraw(); };
}

function showAll() {
  show(-Infinity, Infinity);
}

// An hour back and three ahead, or less; everything if nothing happens within that. One far event does not squeeze the others.
function showNow() {
  const now = seconds();
  const isNear = bars.some((bar) => endOf(bar, now) > now - HOUR);
  if (isNear) show(now - HOUR, now + 3 * HOUR);
  else showAll();
}

// Show the events between two times, a quarter of an hour around now at least.
function show(from, to) {
  const now = seconds();
  const begin = bars.reduce((first, bar) => Math.min(first, bar.announced), now - HOUR / 4);
  const end = bars.reduce((last, bar) => Math.max(last, endOf(bar, now), bar.not_before), now + HOUR / 4);
  view = [Math.max(begin, from), Math.min(end, to)];
  const span = view[1] - view[0];
  view = [view[0] - span * 0.03, view[1] + span * 0.05];
}

function pan(share) {
  const by = (view[1] - view[0]) * share;
  view = [view[0] + by, view[1] + by];
}

function zoom(factor, at = middle()) {
  view = [at - (at - view[0]) * factor, at + (view[1] - at) * factor];
}

// Where buttons and keys zoom: now, if it can be seen.
function middle() {
  const now = seconds();
  return now > view[0] && now < view[1] ? now : (view[0] + view[1]) / 2;
}

const dayOf = (at) => new Date(at * 1000).toLocaleString(undefined, zoned({ month: "short", day: "numeric" }));
const endOf = (bar, now) => bar.ended ?? (bar.started ? now : Math.max(bar.not_before, now));
const isNarrow = (svg) => svg.clientWidth < NARROW;
const leftOf = (svg) => (isNarrow(svg) ? 0 : 160 * UNIT);

// Place the bars: each lane has rows, in which bars follow each other.
function arrange(now, head, perSecond) {
  const lanes = [];
  let top = TOP;
  for (const bar of bars) {
    const end = endOf(bar, now);
    if (end < view[0] || bar.announced > view[1]) continue;
    if (lanes.at(-1)?.name !== bar.lane) lanes.push({ name: bar.lane, rows: [], bars: [] });
    const lane = lanes.at(-1);
    let row = lane.rows.findIndex((free) => free <= bar.announced);
    if (row < 0) row = lane.rows.length;
    // The label of a short bar stands behind it.
    lane.rows[row] = Math.max(end, bar.announced + (bar.label.length * LETTER) / perSecond);
    lane.bars.push([bar, row]);
  }
  for (const lane of lanes) {
    lane.top = top;
    top += head + lane.rows.length * ROW + 4 * UNIT;
  }
  return [lanes, Math.max(top, TOP + 3 * ROW) + 8];
}

function paint(svg) {
  const now = seconds();
  const [width, left] = [svg.clientWidth || 960, leftOf(svg)];
  const head = isNarrow(svg) ? 18 * UNIT : 0;
  const place = (at) => left + ((at - view[0]) / (view[1] - view[0])) * (width - left);
  const clip = (at) => Math.min(width, Math.max(left, place(at)));
  const [lanes, height] = arrange(now, head, (width - left) / (view[1] - view[0]));
  const parts = [];
  moving = [];
  const step = STEPS.find((each) => ((width - left) * each) / (view[1] - view[0]) >= 84 * UNIT) ?? STEPS.at(-1) * Math.ceil((view[1] - view[0]) / STEPS.at(-1) / 8);
  let last = dayOf(now);
  for (let at = Math.ceil(view[0] / step) * step; at < view[1]; at += step) {
    const day = dayOf(at);
    const time = step >= 86400 ? "" : new Date(at * 1000).toLocaleString(undefined, zoned({ hour: "2-digit", minute: "2-digit", ...(step < 60 ? { second: "2-digit" } : {}), hourCycle: "h23" }));
    const label = [time && day === last ? "" : day, time].filter(Boolean).join(" ");
    last = day;
    parts.push(node("line", { class: "grid", x1: place(at), x2: place(at), y1: 24 * UNIT, y2: height }));
    if (place(at) < width - 6 * LETTER) parts.push(node("text", { class: "axis", x: place(at) + 3, y: 16 * UNIT }, label));
  }
  for (const lane of lanes) {
    parts.push(node("line", { class: "grid", x1: 0, x2: width, y1: lane.top, y2: lane.top }));
    const name = node("svg", { x: 0, y: lane.top, width: head ? width : left - 8, height: ROW }, node("title", {}, lane.name), node("text", { class: "lane", x: 4, y: (head ? 14 : 18) * UNIT }, fitted(lane.name, (head ? width : left) - 16)));
    parts.push(name);
    for (const [bar, row] of lane.bars) parts.push(drawBar(bar, lane.top + head + 4 * UNIT + row * ROW, now, place, clip, width));
  }
  const line = node("line", { class: "now", y1: 20 * UNIT, y2: height });
  const moveNow = (at) => {
    line.setAttribute("x1", place(at));
    line.setAttribute("x2", place(at));
    line.style.display = place(at) < left || place(at) > width ? "none" : "";
  };
  moving.push(moveNow);
  moveNow(now);
  parts.push(line);
  const focused = svg.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  svg.setAttribute("height", height);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...parts);
  if (focused) svg.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

// The text, or as much of it as fits, with an ellipsis.
function fitted(words, room) {
  const paint = document.createElement("canvas").getContext("2d");
  const { fontFamily } = getComputedStyle(document.body);
  paint.font = `600 ${12 * UNIT}px ${fontFamily}`;
  const letters = [...words];
  if (paint.measureText(words).width <= room) return words;
  while (letters.length && paint.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return `${letters.join("")}…`;
}

function drawBar(bar, y, now, place, clip, width) {
  const high = ROW - 8 * UNIT;
  const begin = clip(bar.announced);
  const title = node("title", {});
  const whole = node("rect", { class: `bar-${bar.status}`, x: begin, y, height: high, rx: 3 });
  const done = bar.started && node("rect", { class: `done bar-${bar.status}`, x: clip(bar.started), y, height: high, rx: 3 });
  const label = node("text", { x: 6, y: 12 * UNIT }, bar.label);
  const room = node("svg", { x: begin, y, height: high }, label);
  const link = node("a", { href: `/events/${bar.id}` }, title, whole, ...(done ? [done] : []), room);
  const grow = (at) => {
    const end = clip(endOf(bar, at));
    whole.setAttribute("width", Math.max(3, end - begin));
    done?.setAttribute("width", Math.max(3, end - clip(bar.started)));
    const isShort = end - begin < bar.label.length * LETTER;
    room.setAttribute("x", isShort ? end + 2 : begin);
    room.setAttribute("width", Math.max(0, isShort ? width - end - 2 : end - begin - 4));
    const rest = bar.status === "Scheduled" ? timeLeft(bar.not_before - at) : "";
    const isRoomy = end - begin > (bar.label.length + rest.length + 3) * LETTER;
    label.textContent = rest && isRoomy ? `${rest} · ${bar.label}` : bar.label;
    title.textContent = `${bar.label} · ${bar.status}${rest && ` · ${rest}`} · NotBefore ${shown(new Date(bar.not_before * 1000))}`;
  };
  grow(now);
  if (bar.ended === null) moving.push(grow);
  const isInside = (at) => at >= bar.announced && at <= endOf(bar, now) && clip(at) === place(at);
  if (isInside(bar.not_before)) link.append(node("line", { class: "mark", x1: place(bar.not_before), x2: place(bar.not_before), y1: y - 2, y2: y + high + 2 }));
  for (const [by, at] of bar.approvals) {
    if (isInside(at)) link.append(node("circle", { class: "approval", cx: place(at), cy: y + high + 3 * UNIT, r: 3 * UNIT }, node("title", {}, `${text("approved")} ${by} ${shown(new Date(at * 1000))}`)));
  }
  return link;
}

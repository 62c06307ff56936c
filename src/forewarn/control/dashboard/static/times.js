// Times in the zone of the browser or in UTC, and countdowns.
import { text } from "./texts.js";

const KEY = "forewarn-zone";
let ticking = null;

function isUtc() {
  return localStorage.getItem(KEY) === "utc";
}

// The options of the time zone that was chosen.
export function zoned(options) {
  return isUtc() ? { ...options, timeZone: "UTC" } : options;
}

const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const DAY = { year: "numeric", month: "2-digit", day: "2-digit" };
const formats = new Map(); // to make one takes longer than to use it a hundred times

export function shown(date) {
  const isFar = Math.abs(date - Date.now()) > 12 * 3600e3;
  const key = `${isFar} ${isUtc()}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(undefined, zoned(isFar ? { ...DAY, ...TIME } : TIME)));
  return formats.get(key).format(date) + (isUtc() ? " UTC" : "");
}

export function left(seconds) {
  if (seconds <= 0) return "";
  const [days, hours, minutes, rest] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  return days ? `${days} d ${hours} h` : hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${rest} s` : `${rest} s`;
}

function tick() {
  for (const each of document.querySelectorAll(".elapsed")) {
    const passed = left((Date.now() - new Date(each.dataset.since)) / 1000);
    if (each.textContent !== passed) each.textContent = passed;
  }
  for (const each of document.querySelectorAll(".countdown")) {
    const rest = (new Date(each.dataset.until) - Date.now()) / 1000;
    const now = rest < 0 && each.hasAttribute("data-late") ? `${text("late")} ${left(-rest)}` : left(rest);
    if (each.textContent !== now) each.textContent = now;
  }
}

function nameZone(zone) {
  zone.textContent = isUtc() ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone;
  zone.setAttribute("aria-label", `${text("times")} ${zone.textContent}`);
}

export function showTimes() {
  for (const each of document.querySelectorAll("time[datetime]")) {
    each.textContent = shown(new Date(each.dateTime));
    each.title = each.dateTime;
  }
  for (const each of document.querySelectorAll(".duration")) each.textContent = left(Number(each.dataset.seconds)) || each.textContent;
  const zone = document.getElementById("zone");
  if (zone && !zone.onclick) {
    zone.onclick = () => {
      localStorage.setItem(KEY, isUtc() ? "local" : "utc");
      nameZone(zone);
      showTimes();
      document.dispatchEvent(new Event("zonechange"));
    };
    nameZone(zone);
  }
  tick();
  ticking ??= setInterval(tick, 1000);
}

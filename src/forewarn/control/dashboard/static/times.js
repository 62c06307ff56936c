// Times in the zone of the browser or in UTC, and countdowns.
import { text } from "./texts.js";

const KEY = "forewarn-zone";
let ticking = null;
let offset = 0; // ms by which the clock of the service is ahead of the clock of the browser

// The page carries the time of the service: the clock of the browser may be wrong.
export function setClock(body) {
  if (body.dataset.now) offset = Number(body.dataset.now) * 1000 - Date.now();
}

// The time of the service, in ms since 1970.
export function now() {
  return Date.now() + offset;
}

function isUtc() {
  return localStorage.getItem(KEY) === "utc";
}

// The options of the time zone that was chosen.
export function zoned(options) {
  return isUtc() ? { ...options, timeZone: "UTC" } : options;
}

function dayAndTime(date) {
  const written = new Date(date - (isUtc() ? 0 : date.getTimezoneOffset() * 60e3)).toISOString();
  return [written.slice(0, 10), written.slice(11, 19)];
}

// The time, with its date unless that is today.
export function shown(date) {
  const [day, time] = dayAndTime(date);
  const [today] = dayAndTime(new Date(now()));
  return `${day === today ? "" : `${day} `}${time}${isUtc() ? " UTC" : ""}`;
}

export function left(seconds) {
  if (seconds <= 0) return "";
  const [days, hours, minutes, rest] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  return days ? `${days} d ${hours} h` : hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${rest} s` : `${rest} s`;
}

function tick() {
  for (const each of document.querySelectorAll(".elapsed")) {
    const passed = left((now() - new Date(each.dataset.since)) / 1000);
    if (each.textContent !== passed) each.textContent = passed;
  }
  for (const each of document.querySelectorAll(".countdown")) {
    const rest = (new Date(each.dataset.until) - now()) / 1000;
    const said = rest < 0 && each.hasAttribute("data-late") ? `${text("late")} ${left(-rest)}` : left(rest);
    if (each.textContent !== said) each.textContent = said;
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

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

export function shown(date) {
  const options = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  if (Math.abs(date - Date.now()) > 12 * 3600e3) Object.assign(options, { year: "numeric", month: "2-digit", day: "2-digit" });
  return date.toLocaleString(undefined, zoned(options)) + (isUtc() ? " UTC" : "");
}

export function left(seconds) {
  if (seconds <= 0) return "";
  const [days, hours, minutes, rest] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  return days ? `${days} d ${hours} h` : hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${rest} s` : `${rest} s`;
}

function tick() {
  for (const each of document.querySelectorAll(".countdown")) {
    const now = left((new Date(each.dataset.until) - Date.now()) / 1000);
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

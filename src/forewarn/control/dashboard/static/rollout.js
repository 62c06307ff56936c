// The preview of a rollout: its waves as bars on a line of time, and everything that it cannot do.
import { bodyOf } from "./forms.js";
import { send } from "./requests.js";
import { text } from "./texts.js";
import { shown } from "./times.js";

const NAMES = "http://www.w3.org/2000/svg";
const QUIET = 300; // ms without a change after which the plan is asked for
const SHOWN = 10; // hosts that are left out and named

export function previewRollout() {
  const form = document.querySelector('form[data-json="rollout"]');
  const place = document.getElementById("plan");
  if (!form || !place || form.oninput) return;
  let timer = null;
  const refresh = () => {
    if (isComplete(form)) showPlan(bodyOf(form), place);
    else place.replaceChildren(line(text("incomplete")));
  };
  form.oninput = () => { requireHosts(form); clearTimeout(timer); timer = setTimeout(refresh, QUIET); };
  requireHosts(form);
  refresh();
}

function isComplete({ elements }) {
  return Boolean(elements.operation.value && (elements.hosts.value.trim() || elements.selector.value.trim() || elements.all_hosts.checked));
}

// No field alone is required: hosts are named, selected by labels, or all of them are meant.
function requireHosts({ elements }) {
  const isGiven = elements.hosts.value.trim() || elements.selector.value.trim() || elements.all_hosts.checked;
  elements.hosts.setCustomValidity(isGiven ? "" : text("nohosts"));
}

// Show what a rollout would do; return whether it can be started.
export async function showPlan(body, place) {
  const { isDone, result } = await send("POST", "/v1/rollouts/plan", body);
  place.replaceChildren(...(isDone ? drawn(result, place.clientWidth) : [line(result.detail, "problem")]));
  return isDone && !result.problems.length;
}

function line(content, className = "note") {
  return Object.assign(document.createElement("p"), { textContent: content, className });
}

function drawn(plan, width) {
  const skipped = Object.entries(plan.skipped).slice(0, SHOWN).map(([host, why]) => `${host}: ${why}`);
  const parts = [...named("problems", plan.problems, "problem"), ...named("notes", plan.notes), ...named("skipped", skipped)];
  if (plan.waves.length) parts.unshift(line(`${plan.waves.length} ${text("waves")}${plan.prediction ? ` · ${text("finish")} ${shown(new Date(plan.prediction.finish))}` : ""}`), chart(plan.waves, width));
  return parts;
}

function named(heading, texts, className = "note") {
  return texts.length ? [Object.assign(document.createElement("h3"), { textContent: text(heading) }), ...texts.map((each) => line(each, className))] : [];
}

function chart(waves, room) {
  const times = waves.map((wave) => [Date.parse(wave.starts_at), Date.parse(wave.ends_at)]);
  const [begin, end] = [Math.min(...times.map(([at]) => at)), Math.max(...times.map(([, at]) => at))];
  const most = Math.max(...waves.map((wave) => wave.hosts.length));
  const width = Math.max(300, room);
  const svg = node("svg", { viewBox: `0 0 ${width} 150`, role: "img", "aria-label": `${waves.length} ${text("waves")}`, class: "waves" });
  waves.forEach((wave, number) => {
    const [from, to] = times[number].map((at) => ((at - begin) / Math.max(1, end - begin)) * width);
    const height = 10 + (90 * wave.hosts.length) / most;
    const bar = node("rect", { x: from, y: 120 - height, width: Math.max(2, to - from - 1), height, rx: 2, class: "announced" });
    bar.append(node("title", {}, `${number + 1}: ${wave.hosts.slice(0, 10).join(", ")}${wave.hosts.length > 10 ? " …" : ""}`));
    svg.append(bar);
    if (to - from > 60) svg.append(node("text", { x: from, y: 116 - height }, `${number + 1}: ${wave.hosts.length} ${text("hosts")}`));
  });
  svg.append(node("line", { x1: 0, x2: width, y1: 122, y2: 122 }), node("text", { x: 0, y: 140 }, shown(new Date(begin))), node("text", { x: width, y: 140, "text-anchor": "end" }, shown(new Date(end))));
  return svg;
}

function node(name, attributes, content = "") {
  const made = document.createElementNS(NAMES, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = content;
  return made;
}

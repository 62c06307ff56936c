// The preview of a rollout: its waves as bars on a line of time, and everything that it cannot do.
import { planOf } from "./actions.js";
import { text } from "./texts.js";
import { shown } from "./times.js";

const NAMES = "http://www.w3.org/2000/svg";
const QUIET = 300; // ms without a change after which the plan is asked for

export function previewRollout() {
  const form = document.querySelector('form[data-json="rollout"]');
  const place = document.getElementById("plan");
  if (!form || !place || form.oninput) return;
  let timer = null;
  const refresh = async () => {
    const [isGood, plan] = await planOf(form);
    place.replaceChildren(...(isGood ? drawn(plan) : [line(plan.detail, "problem")]));
  };
  form.oninput = () => { clearTimeout(timer); timer = setTimeout(refresh, QUIET); };
}

function line(content, className = "note") {
  return Object.assign(document.createElement("p"), { textContent: content, className });
}

function drawn(plan) {
  const parts = [...plan.problems.map((each) => line(each, "problem")), ...plan.notes.map((each) => line(each))];
  const skipped = Object.entries(plan.skipped);
  if (skipped.length) parts.push(line(`${text("skipped")}: ${skipped.slice(0, 10).map(([host, why]) => `${host} (${why})`).join(", ")}`));
  if (plan.waves.length) parts.unshift(line(`${plan.waves.length} ${text("waves")}${plan.prediction ? ` · ${text("finish")} ${shown(new Date(plan.prediction.finish))}` : ""}`), chart(plan.waves));
  return parts;
}

function chart(waves) {
  const times = waves.map((wave) => [Date.parse(wave.starts_at), Date.parse(wave.ends_at)]);
  const [begin, end] = [Math.min(...times.map(([at]) => at)), Math.max(...times.map(([, at]) => at))];
  const most = Math.max(...waves.map((wave) => wave.hosts.length));
  const width = Math.max(300, document.getElementById("plan").clientWidth);
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

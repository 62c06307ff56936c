// Actions: each is a request to the control API, after a question in a dialog that shows what it would do.
import { text } from "./texts.js";
import { selectedVms } from "./selection.js";
import { shown } from "./times.js";

const QUIET = 300; // ms without a change after which a preview is asked for

export function enableActions() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-method], button[data-bulk], button[data-pause]");
    if (!button) return;
    const { bulk, pause, method, path, body } = button.dataset;
    const more = { title: button.textContent, isIrreversible: button.hasAttribute("data-irreversible"), hasTerms: button.hasAttribute("data-terms"), note: button.dataset.note };
    if (pause) ask(await pausesOf(pause === "withdraw"), more);
    else if (bulk) ask([{ method: "POST", path: "/v1/vms/operations", body: { operation: bulk, select: { names: selectedVms() } }, names: selectedVms() }], { ...more, hasPreview: true });
    else ask([{ method, path, body: JSON.parse(body) }], { ...more, hasPreview: button.hasAttribute("data-preview") });
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.path) return;
    event.preventDefault();
    const hasPreview = form.hasAttribute("data-preview");
    ask([{ method: form.dataset.method, path: form.dataset.path, body: bodyOf(form) }], { title: form.querySelector("button").textContent, hasPreview, hasTerms: form.hasAttribute("data-terms") });
  });
}

// The rollouts that run at this moment, which the page may not show yet.
async function pausesOf(withdraw) {
  const response = await fetch("/v1/rollouts");
  const running = (await response.json()).items.filter((each) => each.state === "running" || (withdraw && each.state === "paused"));
  return running.map(({ name }) => ({ method: "POST", path: `/v1/rollouts/${encodeURIComponent(name)}/pause`, body: withdraw ? { withdraw } : {}, names: [name] }));
}

export function bodyOf(form) {
  const data = new FormData(form);
  const value = (name) => String(data.get(name) ?? "").trim();
  const list = (name) => value(name).split(/[\n,]/).map((each) => each.trim()).filter(Boolean);
  const lines = (name) => value(name).split("\n").map((each) => each.trim()).filter(Boolean);
  switch (form.dataset.json) {
    case "terms": {
      const flags = Object.fromEntries([...form.querySelectorAll('input[type="checkbox"]')].map((box) => [box.name, box.checked]));
      return { approval: value("approval"), quorum: Number(value("quorum")), postpone_limit: Number(value("postpone_limit")) * 60, quiet_hours: lines("quiet_hours"),
        terminate_notice: value("terminate_notice") ? Number(value("terminate_notice")) * 60 : null, eviction: value("eviction"), ...flags };
    }
    case "token": {
      const body = { name: value("name"), role: value("role"), groups: list("groups") };
      return value("days") ? { ...body, lasts: Number(value("days")) * 86400 } : body;
    }
    case "rollout":
      return rolloutOf(value, list, lines);
    case "subscription":
      return { name: value("name"), kind: value("kind"), target: value("target"), groups: list("groups") };
    case "move":
      return { host: value("host") };
    default:
      return { seconds: Number(value("minutes")) * 60 };
  }
}

function rolloutOf(value, list, lines) {
  const terms = { operation: value("operation"), parallel: Number(value("parallel") || 1), order: value("order"), on_failure: value("on_failure"), on_conflict: value("on_conflict") };
  const hosts = list("hosts");
  if (hosts.length) terms.hosts = hosts;
  else if (!value("selector")) terms.all_hosts = true;
  for (const key of ["selector", "description"]) if (value(key)) terms[key] = value(key);
  if (terms.operation === "command") terms.command = value("command");
  for (const key of ["fleet_share", "group_share"]) if (value(key)) terms[key] = Number(value(key)) / 100;
  if (Number(value("settle"))) terms.settle = Number(value("settle")) * 60;
  for (const key of ["canary", "max_failures"]) if (Number(value(key))) terms[key] = Number(value(key));
  if (lines("windows").length) terms.windows = lines("windows");
  if (value("gate")) terms.gate = /^https?:/.test(value("gate")) ? { url: value("gate") } : { command: value("gate") };
  return { name: value("name") || "unnamed", terms };
}

export async function planOf(form) {
  const response = await fetch("/v1/rollouts/plan", { method: "POST", headers: headers(), body: JSON.stringify(bodyOf(form)) });
  return [response.ok, await response.json()];
}

function headers(more = {}) {
  return { "Content-Type": "application/json", "X-CSRF-Token": document.body.dataset.csrf, ...more };
}

// crypto.randomUUID exists in secure contexts only, and the service may be reached by plain HTTP.
function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function element(name, content = "", more = {}) {
  return Object.assign(document.createElement(name), { textContent: content, ...more });
}

function ask(steps, { title, isIrreversible = false, hasTerms = false, hasPreview = false, note = "" }) {
  const dialog = document.getElementById("dialog");
  const list = element("ul");
  for (const { path, body, names } of steps) list.append(element("li", names?.join(", ") || `${decodeURIComponent(path)} ${body ? JSON.stringify(body) : ""}`));
  if (!steps.length) list.append(element("li", text("nothing")));
  const terms = hasTerms ? termFields() : null;
  const preview = element("div", "", { className: "preview" });
  preview.setAttribute("role", "status");
  const withTerms = (body) => (terms ? { ...body, ...termsOf(terms) } : body);
  const carryOut = element("button", text("confirm"), { className: isIrreversible ? "danger" : "", disabled: !steps.length });
  const close = element("button", text("close"), { onclick: () => dialog.close() });
  const showPreview = async () => {
    const results = await Promise.all(steps.map(({ method, path, body }) => send(method, `${path}?dry_run=true`, withTerms(body))));
    preview.replaceChildren(element("h3", text("preview")), ...results.flatMap((result) => told(result, "wouldrefuse")));
  };
  let timer = null;
  if (terms) terms.oninput = () => { clearTimeout(timer); timer = setTimeout(showPreview, QUIET); };
  carryOut.onclick = async () => {
    carryOut.disabled = true;
    clearTimeout(timer);
    preview.remove();
    terms?.remove();
    for (const [number, { method, path, body }] of steps.entries()) {
      const result = await send(method, path, withTerms(body));
      list.children[number].append(...told(result, "failed", "done"));
    }
    close.focus();
  };
  dialog.replaceChildren(element("h2", title, { id: "dialog-title" }));
  if (note) dialog.append(element("p", note));
  dialog.append(list);
  if (terms) dialog.append(terms);
  if (hasPreview) { dialog.append(preview); showPreview(); }
  if (isIrreversible) dialog.append(element("p", text("irreversible"), { className: "problem" }));
  const actions = element("div", "", { className: "actions" });
  actions.append(carryOut, close);
  dialog.append(actions);
  dialog.showModal();
  close.focus();
}

function termFields() {
  const form = element("form", "", { className: "form" });
  for (const [name, type] of [["not_before", "datetime-local"], ["duration", "number"], ["description", "text"]]) {
    const label = element("label", `${text(name)} `);
    label.append(element("input", "", { name, type, min: type === "number" ? "0" : "" }));
    form.append(label);
  }
  form.onsubmit = (event) => event.preventDefault();
  return form;
}

function termsOf(form) {
  const { not_before, duration, description } = form.elements;
  return {
    ...(not_before.value && { not_before: new Date(not_before.value).toISOString() }),
    ...(duration.value && { duration: Number(duration.value) }),
    ...(description.value && { description: description.value }),
  };
}

async function send(method, path, body) {
  try {
    const response = await fetch(path, { method, headers: headers({ "Idempotency-Key": newKey() }), body: body === null ? undefined : JSON.stringify(body) });
    const answer = await response.text();
    const result = answer ? JSON.parse(answer) : {};
    return { isDone: response.ok, result: response.ok ? result : { detail: result.detail ?? response.statusText } };
  } catch (error) {
    return { isDone: false, result: { detail: String(error) } };
  }
}

// Return elements that say what a request did or would do.
function told({ isDone, result }, failed, done = "") {
  const line = (content, className) => element("p", content, { className });
  if (!isDone) return [line(`${text(failed)}: ${result.detail}`, "problem")];
  const lines = [];
  const secret = result.token ?? result.secret;
  if (secret) lines.push(`${text("secret")} ${secret}`);
  for (const { event, without_notice: why, turn_after: after, earliest_start: start } of result.announcements ?? []) {
    const at = start ?? event.not_before;
    lines.push([`${event.type} ${event.resources.join(", ")}: ${event.status}`, at && `${text("from")} ${shown(new Date(at))}`, why, after?.length && `${text("behind")} ${after.map((id) => id.slice(0, 8)).join(", ")}`].filter(Boolean).join(" · "));
  }
  if (result.canceled?.length) lines.push(`${text("canceled")}: ${result.canceled.map((id) => id.slice(0, 8)).join(", ")}`);
  for (const [vm, why] of Object.entries(result.left ?? {})) lines.push(`${text("stays")} ${vm}: ${why}`);
  if (!lines.length) lines.push(result.detail || text("unannounced"));
  const prefix = done ? `${text(done)}: ` : "";
  return [...lines.map((each) => line(prefix + each, "note")), ...Object.entries(result.refused ?? {}).map(([name, why]) => line(`${text(failed)}: ${name}: ${why}`, "problem"))];
}

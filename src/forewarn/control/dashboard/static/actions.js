// Actions: each is a request to the control API, after a question in a dialog that shows what it would do.
import { text } from "./texts.js";
import { selectedVms } from "./selection.js";
import { shown } from "./times.js";
import { list, send } from "./requests.js";
import { bodyOf, changesOf, keepAsDefaults } from "./forms.js";
import { showPlan } from "./rollout.js";

const QUIET = 300; // ms without a change after which a preview is asked for
const AT_ONCE = 1000; // events that one request cancels at most
const NAMED = 20; // names of one step that are shown

export function enableActions() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-method], button[data-bulk], button[data-pause]");
    if (!button) return;
    const { bulk, pause, method, path, body, note, subject } = button.dataset;
    const hasPreview = button.hasAttribute("data-preview");
    const more = { title: button.textContent, isIrreversible: button.hasAttribute("data-irreversible"), hasTerms: button.hasAttribute("data-terms"), note };
    if (pause) await askToPause(pause, more);
    else if (bulk) ask([{ method: "POST", path: "/v1/vms/operations", body: { operation: bulk, select: { names: selectedVms() } }, names: selectedVms(), hasPreview: true }], more);
    else ask([{ method, path, body: JSON.parse(body), names: [subject ?? button.closest("tr").querySelector("bdi").textContent], hasPreview }], more);
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.path) return;
    event.preventDefault();
    const { method, path, json, note, subject } = form.dataset;
    const body = bodyOf(form);
    const names = json === "terms" ? changesOf(form) : [subject ?? body.name];
    const steps = names.length ? [{ method, path, body, names, hasPreview: form.hasAttribute("data-preview") }] : [];
    ask(steps, { title: form.querySelector("button").textContent, hasTerms: form.hasAttribute("data-terms"), note, plan: json === "rollout" ? body : null, whenDone: () => { if (json === "terms") keepAsDefaults(form); } });
  });
}

async function askToPause(kind, more) {
  try {
    ask([...await pauses(kind !== "keep"), ...(kind === "cancel" ? await cancellations() : [])], more);
  } catch (error) {
    ask([], { ...more, note: `${text("failed")}: ${error.message}` });
  }
}

// The rollouts that run at this moment, which the page may not show yet.
async function pauses(withdraw) {
  const running = (await list("/v1/rollouts?finished=0")).filter((each) => each.state === "running" || (withdraw && each.state === "paused"));
  return running.map(({ name }) => ({ method: "POST", path: `/v1/rollouts/${encodeURIComponent(name)}/pause`, body: withdraw ? { withdraw } : {}, names: [name] }));
}

// All Scheduled events of this moment. Those of rollouts may be withdrawn before: then a request finds nothing left.
async function cancellations() {
  const events = await list("/v1/events?status=Scheduled&limit=1000");
  const parts = Array.from({ length: Math.ceil(events.length / AT_ONCE) }, (_, number) => events.slice(number * AT_ONCE, (number + 1) * AT_ONCE));
  return parts.map((part) => ({ method: "POST", path: "/v1/events/cancel", body: { ids: part.map((each) => each.id) }, names: part.map((each) => `${each.type} ${each.resources.join(" ")}`), hasPreview: true, ifNone: text("noneleft") }));
}

function element(name, content = "", more = {}) {
  return Object.assign(document.createElement(name), { textContent: content, ...more });
}

function ask(steps, { title, note = "", isIrreversible = false, hasTerms = false, plan = null, whenDone = () => {} }) {
  const dialog = document.getElementById("dialog");
  const items = element("ul");
  for (const { names } of steps) items.append(element("li", names.slice(0, NAMED).join(", ") + (names.length > NAMED ? ` +${names.length - NAMED} ${text("more")}` : "")));
  if (!steps.length) items.append(element("li", text("nothing")));
  const terms = hasTerms ? termFields() : null;
  const preview = element("div", "", { className: "preview" });
  preview.setAttribute("role", "status");
  const withTerms = (body) => (terms ? { ...body, ...termsOf(terms) } : body);
  const carryOut = element("button", text("confirm"), { className: isIrreversible ? "danger" : "", disabled: !steps.length || plan !== null });
  const close = element("button", text("back"), { onclick: () => dialog.close() });
  const previewed = steps.filter((each) => each.hasPreview);
  const showPreview = async () => {
    const results = await Promise.all(previewed.map(({ method, path, body }) => send(method, `${path}?dry_run=true`, withTerms(body))));
    preview.replaceChildren(element("h3", text("preview")), ...results.flatMap((result, number) => told(result, "wouldrefuse", "", previewed[number].ifNone)));
  };
  let timer = null;
  if (terms) terms.oninput = () => { clearTimeout(timer); timer = setTimeout(showPreview, QUIET); };
  carryOut.onclick = async () => {
    carryOut.disabled = true;
    clearTimeout(timer);
    preview.remove();
    terms?.remove();
    for (const [number, { method, path, body, ifNone }] of steps.entries()) {
      const result = await send(method, path, withTerms(body));
      items.children[number].append(...told(result, "failed", "done", ifNone));
      if (result.isDone) whenDone();
    }
    close.textContent = text("close");
    close.focus();
  };
  dialog.replaceChildren(element("h2", title, { id: "dialog-title" }));
  if (note) dialog.append(element("p", note));
  dialog.append(items);
  if (terms) dialog.append(terms);
  if (previewed.length || plan) dialog.append(preview);
  if (isIrreversible) dialog.append(element("p", text("irreversible"), { className: "problem" }));
  const actions = element("div", "", { className: "actions" });
  actions.append(carryOut, close);
  dialog.append(actions);
  dialog.showModal();
  close.focus();
  if (previewed.length) showPreview();
  if (plan) showPlan(plan, preview).then((canStart) => { carryOut.disabled = !canStart; });
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

// Return elements that say what a request did or would do.
function told({ isDone, status, result }, failed, done = "", ifNone = "") {
  const line = (content, className) => element("p", content, { className });
  if (status === 404 && ifNone) return [line(ifNone, "note")];
  if (!isDone) return [line(`${text(failed)}: ${result.detail}`, "problem")];
  const lines = [];
  const secret = result.token ?? result.secret;
  if (secret) lines.push(`${text("secret")} ${secret}`);
  for (const { event, without_notice: why, turn_after: after, earliest_start: start } of (result.announcements ?? []).filter((each) => !result.canceled?.includes(each.event.id))) {
    const at = start ?? event.not_before;
    lines.push([`${event.type} ${event.resources.join(", ")}: ${event.status}`, at && `${text("from")} ${shown(new Date(at))}`, why, after?.length && `${text("behind")} ${after.map((id) => id.slice(0, 8)).join(", ")}`].filter(Boolean).join(" · "));
  }
  if (result.canceled?.length) lines.push(`${text("canceled")}: ${result.canceled.length} (${result.canceled.slice(0, NAMED).map((id) => id.slice(0, 8)).join(", ")}${result.canceled.length > NAMED ? ", …" : ""})`);
  for (const [vm, why] of Object.entries(result.left ?? {})) lines.push(`${text("stays")} ${vm}: ${why}`);
  if (!lines.length) lines.push(result.detail || text("unannounced"));
  const prefix = done ? `${text(done)}: ` : "";
  return [...lines.map((each) => line(prefix + each, "note")), ...Object.entries(result.refused ?? {}).map(([name, why]) => line(`${text(failed)}: ${name}: ${why}`, "problem"))];
}

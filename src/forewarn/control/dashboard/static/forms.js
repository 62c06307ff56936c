// What forms send. Of the terms of a group only what was changed: somebody else may have changed the others.
import { text } from "./texts.js";

export function bodyOf(form) {
  const data = new FormData(form);
  const value = (name) => String(data.get(name) ?? "").trim();
  const list = (name) => value(name).split(/[\n,]/).map((each) => each.trim()).filter(Boolean);
  const lines = (name) => value(name).split("\n").map((each) => each.trim()).filter(Boolean);
  switch (form.dataset.json) {
    case "terms": {
      const flags = Object.fromEntries([...form.querySelectorAll('input[type="checkbox"]')].map((box) => [box.name, box.checked]));
      const terms = { approval: value("approval"), quorum: Number(value("quorum")), postpone_limit: Number(value("postpone_limit")) * 60, quiet_hours: lines("quiet_hours"),
        terminate_notice: value("terminate_notice") ? Number(value("terminate_notice")) * 60 : null, eviction: value("eviction"), ...flags };
      return Object.fromEntries(Object.entries(terms).filter(([name]) => isChanged(form.elements[name])));
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
  if (value("all_hosts")) terms.all_hosts = true;
  for (const key of ["selector", "description"]) if (value(key)) terms[key] = value(key);
  if (terms.operation === "command") terms.command = value("command");
  for (const key of ["fleet_share", "group_share"]) if (value(key)) terms[key] = Number(value(key)) / 100;
  if (Number(value("settle"))) terms.settle = Number(value("settle")) * 60;
  for (const key of ["canary", "max_failures"]) if (Number(value(key))) terms[key] = Number(value(key));
  if (lines("windows").length) terms.windows = lines("windows");
  if (value("gate")) terms.gate = /^https?:/.test(value("gate")) ? { url: value("gate") } : { command: value("gate") };
  return { name: value("name") || "unnamed", terms };
}

export function isChanged(field) {
  if (field.type === "checkbox") return field.checked !== field.defaultChecked;
  if (field.tagName === "SELECT") return !field.selectedOptions[0].defaultSelected;
  return field.value !== field.defaultValue;
}

// The labels of what was changed, with the new values.
export function changesOf(form) {
  const fields = [...form.elements].filter((each) => each.name && isChanged(each));
  return fields.map((each) => `${labelOf(each)}: ${each.type === "checkbox" ? text(each.checked ? "yes" : "no") : each.value || "-"}`);
}

function labelOf(field) {
  return [...field.labels[0].childNodes].filter((each) => each.nodeType === Node.TEXT_NODE).map((each) => each.textContent).join("").trim();
}

// What was saved is what later changes are compared with.
export function keepAsDefaults(form) {
  for (const each of form.elements) {
    if (each.tagName === "SELECT") [...each.options].forEach((option) => { option.defaultSelected = option.selected; });
    else if (each.type === "checkbox") each.defaultChecked = each.checked;
    else each.defaultValue = each.value;
  }
}

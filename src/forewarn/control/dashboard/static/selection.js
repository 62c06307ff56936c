// Selection of several rows, and the actions on them. It is kept while the list is replaced.
const chosen = new Set();

function boxes() {
  return [...document.querySelectorAll('input[name="vm"]')];
}

export function selectedVms() {
  return boxes().filter((box) => box.checked).map((box) => box.value);
}

export function enableSelection() {
  const bulk = document.getElementById("bulk");
  if (!bulk) return;
  for (const box of boxes()) {
    box.checked = chosen.has(box.value);
    box.onchange = () => { box.checked ? chosen.add(box.value) : chosen.delete(box.value); show(bulk); };
  }
  const all = document.getElementById("all");
  all.onchange = () => {
    for (const box of boxes()) { box.checked = all.checked; all.checked ? chosen.add(box.value) : chosen.delete(box.value); }
    show(bulk);
  };
  show(bulk);
}

function show(bulk) {
  const [number, total] = [selectedVms().length, boxes().length];
  const all = document.getElementById("all");
  all.checked = number > 0 && number === total;
  all.indeterminate = number > 0 && number < total;
  bulk.hidden = !number;
  document.getElementById("selected").textContent = number;
}

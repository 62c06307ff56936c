// A large fleet: one cell per host or group on a canvas, coloured by the states of its VMs.
const UNIT = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; // larger on a wall display
const SIZE = 18 * UNIT;
const GAP = 3 * UNIT;
let cells = [];
let columns = 1;
let current = -1;

export function drawFleet() {
  const data = document.getElementById("fleet-cells");
  const canvas = document.getElementById("fleet-map");
  if (canvas) canvas.hidden = !data;
  if (!data || !canvas) return;
  cells = JSON.parse(data.textContent);
  const states = data.dataset.states.split(" ");
  const path = data.dataset.by === "host" ? "/hosts/" : "/groups/";
  const width = canvas.parentElement.clientWidth - 8;
  columns = Math.max(1, Math.floor(width / (SIZE + GAP)));
  const height = Math.ceil(cells.length / columns) * (SIZE + GAP);
  const scale = devicePixelRatio || 1;
  Object.assign(canvas, { width: width * scale, height: height * scale });
  const paint = canvas.getContext("2d");
  paint.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const colours = states.map((state) => style.getPropertyValue(`--${state}`).trim());
  cells.forEach(([, note, counts], number) => {
    const [x, top] = place(number);
    const total = counts.reduce((sum, each) => sum + each, 0);
    let y = top;
    if (!total) { paint.strokeStyle = colours.at(-1); paint.strokeRect(x + 0.5, y + 0.5, SIZE - 1, SIZE - 1); }
    counts.forEach((count, state) => {
      if (!count) return;
      const share = Math.max(2, (SIZE * count) / total);
      paint.fillStyle = colours[state];
      paint.fillRect(x, y, SIZE, Math.min(share, top + SIZE - y));
      y += share;
    });
    if (note) { paint.strokeStyle = colours[0]; paint.lineWidth = 2; paint.strokeRect(x + 1, top + 1, SIZE - 2, SIZE - 2); paint.lineWidth = 1; }
  });
  const hint = document.getElementById("fleet-hint");
  const show = (number) => {
    current = number;
    const [name, note, counts] = cells[number] ?? ["", "", []];
    hint.textContent = name && `${name}${note && ` (${note})`}: ${counts.map((count, state) => count && `${count} ${states[state]}`).filter(Boolean).join(", ")}`;
    canvas.title = hint.textContent;
  };
  const at = (event) => Math.floor(event.offsetY / (SIZE + GAP)) * columns + Math.floor(event.offsetX / (SIZE + GAP));
  const open = () => { if (cells[current]) location.assign(path + encodeURIComponent(cells[current][0])); };
  canvas.onmousemove = (event) => show(at(event));
  canvas.onclick = (event) => { show(at(event)); open(); };
  canvas.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step) { event.preventDefault(); show(Math.min(cells.length - 1, Math.max(0, current + step))); }
    if (event.key === "Enter") open();
  };
}

function place(number) {
  return [(number % columns) * (SIZE + GAP), Math.floor(number / columns) * (SIZE + GAP)];
}

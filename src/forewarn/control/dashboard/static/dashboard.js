// Every page: times, live regions, actions. Each part is a module of its own.
import { setClock, showTimes } from "./times.js";
import { follow, rememberRegions } from "./live.js";
import { enableActions } from "./actions.js";
import { redeemLink } from "./login.js";
import { enableFilters } from "./filters.js";
import { enableSelection } from "./selection.js";
import { drawFleet } from "./fleet.js";
import { previewRollout } from "./rollout.js";
import { drawTimeline } from "./timeline.js";

// On a phone each row of a table is a card, in which the names of the columns stand before the values.
function labelCells() {
  for (const table of document.querySelectorAll("table")) {
    const names = [...table.querySelectorAll("thead th")].map((each) => each.textContent.trim());
    for (const row of table.tBodies[0]?.rows ?? []) [...row.cells].forEach((cell, number) => {
      if (names[number]) cell.dataset.label = names[number];
      cell.classList.toggle("blank", !cell.textContent.trim() && !cell.querySelector("input, button"));
    });
  }
}

function prepare() {
  labelCells();
  showTimes();
  drawTimeline();
  drawFleet();
  previewRollout();
  enableSelection();
}

// On a phone the navigation is wider than the screen.
function showCurrentPage() {
  const [nav, current] = [document.querySelector("nav"), document.querySelector("nav [aria-current]")];
  if (current) nav.scrollLeft = current.offsetLeft - nav.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
}

setClock(document.body);
showCurrentPage();
redeemLink();
rememberRegions();
prepare();
enableActions();
if (document.body.hasAttribute("data-live")) enableFilters(follow(prepare));

// Filters: a list follows what is chosen and searched for without a new page; the address keeps it.
const QUIET = 150; // ms without a letter after which a text is searched for

export function enableFilters(showNow) {
  const form = document.querySelector("form[data-filters]");
  if (!form) return;
  let timer = null;
  const apply = async () => {
    clearTimeout(timer);
    const given = [...new FormData(form)].filter(([, value]) => value);
    history.replaceState(null, "", `${location.pathname}${given.length ? `?${new URLSearchParams(given)}` : ""}`);
    if (!await showNow()) location.reload(); // the page says why
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  form.addEventListener("change", (event) => { if (event.target.matches("select, [type=radio]")) apply(); });
  form.addEventListener("input", (event) => {
    if (!event.target.matches("[type=search]")) return;
    clearTimeout(timer);
    timer = setTimeout(apply, QUIET);
  });
}

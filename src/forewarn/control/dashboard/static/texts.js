// Texts of scripts, which the page carries.
const TEXTS = JSON.parse(document.getElementById("texts").textContent);

export function text(key) {
  return TEXTS[key] ?? key;
}

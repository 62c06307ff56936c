// A one-time link has its code behind the #, which no server and no log sees; the code is sent by POST.
export function redeemLink() {
  const form = document.getElementById("login");
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!form || !code) return;
  history.replaceState(null, "", location.pathname + location.search);
  document.getElementById("redeeming").hidden = false;
  form.elements.code.value = code;
  form.submit();
}

// Requests to the control API, with the rights of the session.
export async function send(method, path, body) {
  try {
    const response = await fetch(path, { method, headers: headers(), body: body === null ? undefined : JSON.stringify(body) });
    const answer = await response.text();
    const result = answer ? JSON.parse(answer) : {};
    return { isDone: response.ok, status: response.status, result: response.ok ? result : { detail: result.detail ?? response.statusText } };
  } catch (error) {
    return { isDone: false, status: 0, result: { detail: String(error) } };
  }
}

function headers() {
  return { "Content-Type": "application/json", "X-CSRF-Token": document.body.dataset.csrf, "Idempotency-Key": newKey() };
}

// All items of a list, page by page.
export async function list(path) {
  const items = [];
  for (let cursor = ""; cursor !== null;) {
    const response = await fetch(cursor ? `${path}&cursor=${encodeURIComponent(cursor)}` : path);
    const page = await response.json();
    if (!response.ok) throw new Error(page.detail);
    items.push(...page.items);
    cursor = page.next ?? null;
  }
  return items;
}

// crypto.randomUUID exists in secure contexts only, and the service may be reached by plain HTTP.
function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

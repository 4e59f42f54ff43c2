/** Keeps the page live: a session from a key, then a look at the server every two seconds. */
import { show, write } from "./view.js";

const PERIOD_MS = 2_000;
const PATIENCE_MS = 10_000;

const [form, formText, keyInput, notice, overview, signOut, updated] = [
  "sign-in", "sign-in-text", "key", "notice", "overview", "sign-out", "updated",
].map((id) => document.getElementById(id));

let key = keyFromAddress();
let mayOperate = true;
let wake = () => {};

/** The server refused, or did not answer at all: then the status is 0. */
const trouble = (status, message) => Object.assign(new Error(message), { status });

async function ask(path, options) {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const answer = await fetch(path, { cache: "no-store", signal, ...options }).catch(() => {
    throw trouble(0, "the server does not answer.");
  });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw trouble(answer.status, body.detail ?? `it said ${answer.status}.`);
  return { ...body, now: timeAt(answer) };
}

/** Ages must be true: where this computer's clock is clearly wrong, the server's counts. */
function timeAt(answer) {
  const told = Date.parse(answer.headers.get("Date"));
  return Math.abs(told - Date.now()) > 2_000 ? told : Date.now();
}

/** What only operators may read; null once the server has said that this key may not. */
async function askAsOperator(path) {
  if (!mayOperate) return null;
  return ask(path).catch((error) => {
    if (error.status !== 403) throw error;
    mayOperate = false;
    return null;
  });
}

async function look() {
  const [pools, slots, { queue }, { bots, nextCursor, now }] = await Promise.all([
    askAsOperator("v1/pools"),
    askAsOperator("v1/slots"),
    ask("v1/queue"),
    ask("v1/bots?limit=50"),
  ]);
  const operator = pools && slots ? { ...pools, ...slots } : { pools: null, slots: null };
  show({ ...operator, queue, bots, more: Boolean(nextCursor), now });
}

/** Exchange the key for a cookie. It is kept until the server has taken or refused it. */
async function openSession() {
  if (!/^[!-~]+$/.test(key)) throw trouble(401); // no header could carry it
  await ask("v1/session", { method: "POST", headers: { Authorization: `Bearer ${key}` } });
  key = null;
  mayOperate = true;
}

async function turn() {
  if (!form.hidden && !key) return;
  try {
    if (key) await openSession();
    await look();
    presentLive();
  } catch (error) {
    if (error.status === 401) askForKey();
    else presentTrouble(error);
  }
}

function presentLive() {
  form.hidden = true;
  overview.hidden = signOut.hidden = false;
  overview.classList.remove("stale");
  updated.textContent = `Live · ${new Date().toLocaleTimeString()}`;
  write(notice, "");
}

/** What is shown stays, marked as old, until a turn succeeds again. */
function presentTrouble(error) {
  overview.classList.add("stale");
  updated.textContent = "";
  write(notice, `Not live, trying again: ${error.message}`);
  if (error.status === undefined) console.error(error); // a fault of this page
}

function askForKey() {
  const hadSession = !overview.hidden;
  if (key) formText.textContent = "This key is not valid. It may be mistyped, or revoked.";
  else if (hadSession) formText.textContent = "The session has ended. Enter a key to go on.";
  formText.classList.toggle("trouble", Boolean(key) || hadSession);
  key = null;
  overview.hidden = signOut.hidden = true;
  form.hidden = false;
  updated.textContent = "";
  keyInput.focus();
  write(notice, "");
}

/** The key after `#key=`, which then leaves the address bar and the history. */
function keyFromAddress() {
  const [, found] = location.hash.split("#key=");
  if (found) history.replaceState(null, "", location.pathname + location.search);
  return found;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  key = keyInput.value.split("#key=").at(-1).trim(); // the whole address will do, too
  form.reset();
  wake();
});
addEventListener("hashchange", () => {
  key = keyFromAddress() ?? key;
  wake();
});
document.addEventListener("visibilitychange", () => wake());
signOut.addEventListener("click", () => {
  ask("v1/session", { method: "DELETE" }).then(() => location.reload(), presentTrouble);
});

// A hidden tab asks for nothing; it looks at once when it is seen again.
for (;;) {
  if (!document.hidden) await turn();
  await new Promise((resolve) => setTimeout(wake = resolve, PERIOD_MS));
}

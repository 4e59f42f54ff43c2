/** The key, entered once or taken from the address, and exchanged for a cookie that no script can
 * read. Without a session the page waits here, and goes on where it was. The key is asked for above
 * everything, also above a dialog that somebody is filling in: it is still there afterwards. */
import { Trouble, ask } from "./http.js";

const find = (id) => document.getElementById(id);
const [dialog, text, input] = ["sign-in", "sign-in-text", "key"].map(find);
const form = dialog.firstElementChild;
const NOT_VALID = "This key is not valid. It may be mistyped, or revoked.";
const ENDED = "The session has ended. Enter a key to go on.";

let key = keyFromAddress();
let wasOpen = false;
let entered = () => {};

/** The key after `#key=`, which then leaves the address bar and the history. */
function keyFromAddress() {
  const [, found] = location.hash.split("#key=");
  if (found) history.replaceState(null, "", location.pathname + location.search);
  return found;
}

/** Exchange a key that waits. It is kept until the server has taken or refused it. */
export async function open() {
  if (!key) return;
  if (!/^[!-~]+$/.test(key)) throw new Trouble(401, NOT_VALID); // no header could carry it
  await ask("v1/session", { method: "POST", headers: { Authorization: `Bearer ${key}` } });
  key = null;
}

export function opened() {
  wasOpen = true;
  dialog.close();
}

/** The server knows no session: resolves when somebody has entered a key. */
export function enterKey() {
  if (key) text.textContent = NOT_VALID;
  else if (wasOpen) text.textContent = ENDED;
  text.classList.toggle("trouble", Boolean(key) || wasOpen);
  key = null;
  wasOpen = false;
  if (!dialog.open) dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    entered = resolve;
  });
}

export async function close() {
  await ask("v1/session", { method: "DELETE" });
  text.textContent = "You are signed out.";
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  key = input.value.split("#key=").at(-1).trim(); // the whole address will do, too
  form.reset();
  entered();
});

/** Without a key there is nowhere else to go. */
dialog.addEventListener("cancel", (event) => event.preventDefault());

/** Somebody pasted the whole address, with its key, into an open page. */
export function readAddress() {
  const found = keyFromAddress();
  if (!found) return false;
  key = found;
  if (!dialog.open)
    open()
      .catch(() => {})
      .then(() => location.reload());
  else entered();
  return true;
}

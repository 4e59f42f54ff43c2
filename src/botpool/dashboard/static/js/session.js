/** Signs in with an API key and out again. The server keeps the session in a cookie that scripts
 * cannot read. The sign-in dialog opens above any other dialog, whose contents stay. */
import { openDialog } from "./dialogs.js";
import { html } from "./dom.js";
import { fetchJson, RequestError } from "./http.js";

const find = (id) => document.getElementById(id);
const [dialog, text, input] = ["sign-in", "sign-in-text", "key"].map(find);
const form = dialog.firstElementChild;
const NOT_VALID = "This key is not valid. It may be mistyped or revoked.";
const ENDED = "The session has ended. Enter a key to continue.";

let pendingKey = takeKeyFromAddress();
let isFromLink = Boolean(pendingKey);
let wasSignedIn = false;
let onKeyEntered = () => {};

/** The key after `#key=`. Removes it from the address bar and the browser's history. */
function takeKeyFromAddress() {
  const [, key] = location.hash.split("#key=");
  if (key) history.replaceState(null, "", location.pathname + location.search);
  return key;
}

/** Exchange the pending key, if any, for a session. Keeps the key until the server has answered. */
export async function signInWithPendingKey() {
  if (!pendingKey) return;
  // A header cannot carry other characters.
  if (!/^[!-~]+$/.test(pendingKey)) throw new RequestError(401, NOT_VALID);
  const headers = { Authorization: `Bearer ${pendingKey}` };
  const signIn = (query) => fetchJson(`v1/session${query}`, { method: "POST", headers });
  try {
    await signIn(isFromLink ? "?replace=false" : "");
  } catch (error) {
    if (error.status !== 409) throw error;
    await askToReplaceSession(error.message, () => signIn(""));
  }
  pendingKey = null;
}

/** A link must not replace a session unnoticed: another person may have sent it. */
function askToReplaceSession(situation, signIn) {
  return openDialog({
    title: "Sign in with another key?",
    content: html("p", { text: `${situation} The link that you opened contains the other key.` }),
    confirmLabel: "Use the link's key",
    cancelLabel: "Stay signed in",
    destructive: true,
    run: signIn,
  });
}

/** Close the sign-in dialog: the session works. */
export function markSignedIn() {
  wasSignedIn = true;
  dialog.close();
}

/** Open the sign-in dialog. Resolves after the user has entered a key. */
export function promptForKey() {
  if (pendingKey) text.textContent = NOT_VALID;
  else if (wasSignedIn) text.textContent = ENDED;
  text.classList.toggle("error", Boolean(pendingKey) || wasSignedIn);
  pendingKey = null;
  wasSignedIn = false;
  if (!dialog.open) dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    onKeyEntered = resolve;
  });
}

export async function signOut() {
  await fetchJson("v1/session", { method: "DELETE" });
  text.textContent = "You are signed out.";
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  pendingKey = input.value.split("#key=").at(-1).trim(); // a whole address is accepted too
  isFromLink = false;
  form.reset();
  onKeyEntered();
});

/** Escape must not close the dialog: the page shows nothing without a key. */
dialog.addEventListener("cancel", (event) => event.preventDefault());

/** Sign in with a key that was pasted into the address of the open page. Returns false if the
 * address has no key. */
export function signInFromAddress() {
  const key = takeKeyFromAddress();
  if (!key) return false;
  [pendingKey, isFromLink] = [key, true];
  if (!dialog.open)
    signInWithPendingKey()
      .catch(() => {})
      .then(() => location.reload());
  else onKeyEntered();
  return true;
}

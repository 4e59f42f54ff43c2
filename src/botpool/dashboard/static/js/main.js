/** Starts the dashboard: the navigation, the open view, and the connection status. */
import { html, setAttribute, setText, syncChildren } from "./dom.js";
import { serverNow } from "./http.js";
import { runLiveUpdates } from "./live-updates.js";
import { model } from "./model.js";
import { currentRoute, isForOperators } from "./router.js";
import { sendBot } from "./send-bot.js";
import * as session from "./session.js";
import { showToast } from "./toasts.js";

const find = (id) => document.getElementById(id);
const [viewRoot, nav, connection, notice, sendButton, signOutButton] = [
  "view",
  "nav",
  "live",
  "notice",
  "send",
  "sign-out",
].map(find);
const VIEWS = [
  ["#/", "Overview"],
  ["#/queue", "Queue"],
  ["#/bots", "Bots"],
  ["#/slots", "Slots"],
  ["#/plan", "Plan"],
  ["#/rollouts", "Rollouts"],
  ["#/webhooks", "Webhooks"],
  ["#/audit", "Audit"],
];
const STATE_LABELS = { live: "Live", lost: "Not live", "signed-out": "" };

let openedView = null;

/** Open the view of the current address. Views return any of `{refresh, changed, tick, close}`. */
function openView() {
  if (viewRoot.hidden) return;
  closeView();
  const { view, id, query } = currentRoute();
  viewRoot.replaceChildren();
  openedView = view.open(viewRoot, { id, query });
  document.title = `${view.title(id)} · Botpool`;
  for (const link of nav.children) {
    const current =
      link.hash === "#/" ? /^(#\/?)?$/.test(location.hash) : location.hash.startsWith(link.hash);
    setAttribute(link, "aria-current", current ? "page" : null);
  }
}

function closeView() {
  openedView?.close?.();
  openedView = null;
}

function showNav() {
  const visible = VIEWS.filter(([address]) => model.isOperator || !isForOperators(address));
  syncChildren(
    nav,
    visible,
    ([address]) => address,
    ([address, name]) =>
      html("a", { href: address }, html("span", { text: name }), html("span", { class: "badge" })),
  );
  const queued = model.pools.reduce((sum, pool) => sum + pool.queueDepth, 0);
  setText(nav.querySelector("[href='#/queue'] .badge"), queued || "");
}

function showState(state, text) {
  setAttribute(connection, "data-state", state);
  setText(connection, STATE_LABELS[state]);
  setText(notice, state === "lost" ? `Not live, retrying: ${text}` : "");
  viewRoot.classList.toggle("stale", state === "lost");
  if (state === "lost" && viewRoot.hidden) return; // nothing is loaded yet
  const signedIn = state !== "signed-out";
  const opens = viewRoot.hidden && signedIn;
  if (!signedIn) closeView(); // the next key may not open this view
  viewRoot.hidden = nav.hidden = sendButton.hidden = signOutButton.hidden = !signedIn;
  if (opens) {
    showNav();
    openView();
  }
}

addEventListener("hashchange", () => {
  if (session.signInFromAddress()) return;
  openView();
  find("main").focus({ preventScroll: true });
  scrollTo(0, 0);
});
sendButton.addEventListener("click", () => sendBot());
signOutButton.addEventListener("click", async () => {
  await session.signOut().catch((error) => showToast(error.message, "bad"));
  location.reload();
});
setInterval(() => document.hidden || openedView?.tick?.(serverNow()), 1_000);

runLiveUpdates({
  onState: showState,
  onBatch(changes, slotsCreatedOrDeleted) {
    showNav();
    openedView?.changed?.(changes, slotsCreatedOrDeleted);
  },
  onLoaded() {
    showNav();
    openedView?.refresh?.();
  },
});

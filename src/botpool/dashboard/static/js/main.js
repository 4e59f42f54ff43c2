/** Puts the page together: who is signed in, which view is open, whether it is live. */
import { announce } from "./toasts.js";
import { assign, follow, make, write } from "./dom.js";
import { now } from "./http.js";
import { stayLive } from "./live.js";
import { routed } from "./router.js";
import { sendBot } from "./sending.js";
import * as session from "./session.js";
import { world } from "./world.js";

const find = (id) => document.getElementById(id);
const [place, nav, live, notice, send, signOut] = [
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
];
const LIVE = { live: "Live", slow: "Every 5 s", lost: "Not live", "signed-out": "" };

let shown = null;

/** Each view opens as `{refresh, changed, tick, close}`; those it has no use for are left out. */
function openView() {
  if (place.hidden) return;
  shown?.close?.();
  const { view, id, query } = routed();
  place.replaceChildren();
  shown = view.open(place, { id, query });
  document.title = `${view.title(id)} · Botpool`;
  for (const link of nav.children) {
    const mine =
      link.hash === "#/" ? /^(#\/?)?$/.test(location.hash) : location.hash.startsWith(link.hash);
    assign(link, "aria-current", mine ? "page" : null);
  }
}

function showNav() {
  const shownViews = VIEWS.filter(([address]) => world.mayOperate || address !== "#/slots");
  follow(
    nav,
    shownViews,
    ([address]) => address,
    ([address, name]) =>
      make("a", { href: address }, make("span", { text: name }), make("span", { class: "badge" })),
  );
  const waiting = world.pools.reduce((sum, pool) => sum + pool.queueDepth, 0);
  write(nav.querySelector("[href='#/queue'] .badge"), waiting || "");
}

function showState(state, text) {
  assign(live, "data-state", state);
  write(live, LIVE[state]);
  write(notice, state === "lost" ? `Not live, trying again: ${text}` : "");
  place.classList.toggle("stale", state === "lost");
  const signedIn = state !== "signed-out";
  if (signedIn && state === "lost" && place.hidden) return; // nothing to show yet
  const opens = place.hidden && signedIn;
  place.hidden = nav.hidden = send.hidden = signOut.hidden = !signedIn;
  if (opens) {
    showNav();
    openView();
  }
}

addEventListener("hashchange", () => {
  if (session.readAddress()) return;
  openView();
  find("main").focus({ preventScroll: true });
  scrollTo(0, 0);
});
send.addEventListener("click", () => sendBot());
signOut.addEventListener("click", async () => {
  await session.close().catch((error) => announce(error.message, "bad"));
  location.reload();
});
setInterval(() => document.hidden || shown?.tick?.(now()), 1_000);

stayLive({
  onState: showState,
  onBatch(changes, cameOrWent) {
    showNav();
    shown?.changed?.(changes, cameOrWent);
  },
  onLoaded() {
    showNav();
    shown?.refresh?.();
  },
});

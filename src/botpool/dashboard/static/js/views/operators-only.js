/** Replaces the views that a key of the scope “user” cannot open. */
import { html } from "../dom.js";

export const title = () => "For operators";

export function open(root) {
  root.append(
    html("div", { class: "heading" }, html("h1", { text: "This page is for operators" })),
    html("p", {
      class: "empty",
      text:
        "This key has the scope “user”, which shows the bots, the queue and the webhooks of its tenant. " +
        "Sign in with a key of the scope “operator” to open this page.",
    }),
  );
  return {};
}

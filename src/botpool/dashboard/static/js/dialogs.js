/** One dialog for everything that needs an answer: what will happen, and a way out. */
import { make } from "./dom.js";

/** Resolves with true when `work` was done; its error is shown in the dialog, which stays. */
export function inDialog({ title, content, verb, hurts = false, work }) {
  return new Promise((resolve) => {
    let done = false;
    const trouble = make("p", { class: "trouble", role: "alert" });
    const confirm = make("button", { class: hurts ? "danger" : "primary", text: verb });
    const cancel = make("button", {
      type: "button",
      class: "quiet",
      text: "Not now",
      click: () => dialog.close(),
    });
    const form = make(
      "form",
      { submit },
      make("h2", { id: "dialog-title", text: title }),
      content,
      trouble,
      make("div", { class: "buttons" }, cancel, confirm),
    );
    const dialog = make("dialog", { "aria-labelledby": "dialog-title", close: end }, form);

    async function submit(event) {
      event.preventDefault();
      confirm.disabled = true;
      trouble.textContent = "";
      try {
        await work(form);
        done = true;
        dialog.close();
      } catch (error) {
        trouble.textContent = error.message;
        confirm.disabled = false;
      }
    }
    function end() {
      dialog.remove();
      resolve(done);
    }
    document.body.append(dialog);
    dialog.showModal();
    if (hurts) cancel.focus();
  });
}

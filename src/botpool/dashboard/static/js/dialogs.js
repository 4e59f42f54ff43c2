/** A modal dialog with a form, a confirm button and a cancel button. */
import { html } from "./dom.js";

/** Open a dialog. Resolves with true after `run(form)` succeeded, with false after a cancel. An
 * error of `run` appears in the dialog, which stays open. */
export function openDialog({
  title,
  content,
  confirmLabel,
  cancelLabel = "Not now",
  destructive = false,
  run,
}) {
  return new Promise((resolve) => {
    let done = false;
    const errorText = html("p", { class: "error", role: "alert" });
    const confirm = html("button", {
      class: destructive ? "danger" : "primary",
      text: confirmLabel,
    });
    const cancel = html("button", {
      type: "button",
      class: "quiet",
      text: cancelLabel,
      click: () => dialog.close(),
    });
    const form = html(
      "form",
      { submit },
      html("h2", { id: "dialog-title", text: title }),
      content,
      errorText,
      html("div", { class: "buttons" }, cancel, confirm),
    );
    const dialog = html("dialog", { "aria-labelledby": "dialog-title", close: finish }, form);

    async function submit(event) {
      event.preventDefault();
      confirm.disabled = true;
      errorText.textContent = "";
      try {
        await run(form);
        done = true;
        dialog.close();
      } catch (error) {
        errorText.textContent = error.message;
        confirm.disabled = false;
      }
    }
    function finish() {
      dialog.remove();
      resolve(done);
    }
    document.body.append(dialog);
    dialog.showModal();
    if (destructive) cancel.focus();
  });
}

/** What a bot's container writes, as it writes it. */
import { make, write } from "../dom.js";
import { open } from "../http.js";
import { isBeforeTheCall, isFinal } from "../states.js";

const TAIL = 500;
const KEPT = 200_000;

export function output(id) {
  const text = make("pre", {
    class: "output",
    tabindex: 0,
    role: "log",
    "aria-label": "Output of its container",
  });
  const note = make("span", { class: "soft" });
  const element = make(
    "section",
    { class: "card", "aria-labelledby": "output" },
    make("header", {}, make("h2", { id: "output", text: "Output" }), note),
    text,
  );
  const controller = new AbortController();
  let following = null;

  /** Follows a bot that runs, and reads once what an ended one left. */
  async function follow(bot) {
    const wanted = isBeforeTheCall(bot.status) ? null : `${bot.attempts} ${isFinal(bot.status)}`;
    if (wanted === null) write(note, "It writes nothing before it runs.");
    if (wanted === null || following === wanted || following === `${bot.attempts} false`) return;
    following = wanted;
    try {
      await read(isFinal(bot.status));
    } catch (error) {
      if (!controller.signal.aborted) write(note, `Not to be had: ${error.message}`);
      following = null;
    }
  }

  async function read(ended) {
    const address = `v1/bots/${id}/logs?tail=${TAIL}&follow=${!ended}`;
    const answer = await open(address, { signal: controller.signal });
    write(note, ended ? "" : "as it is written");
    text.textContent = "";
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      add(value);
    }
    write(note, text.textContent === "" ? "It wrote nothing, or its container is gone." : "ended");
  }

  function add(piece) {
    const atEnd = text.scrollTop + text.clientHeight > text.scrollHeight - 30;
    text.append(piece);
    if (text.textContent.length > KEPT) text.textContent = text.textContent.slice(-KEPT / 2);
    if (atEnd) text.scrollTop = text.scrollHeight;
  }

  return { element, follow, close: () => controller.abort() };
}

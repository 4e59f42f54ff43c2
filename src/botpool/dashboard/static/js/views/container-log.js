/** The output of a bot's container. */
import { html, setText } from "../dom.js";
import { fetchResponse } from "../http.js";
import { hasNotStarted, isFinal } from "../statuses.js";

const TAIL = 500;
const MAX_CHARACTERS = 200_000;

export function containerLog(id) {
  const text = html("pre", {
    class: "log",
    tabindex: 0,
    role: "log",
    "aria-label": "Container output",
  });
  const note = html("span", { class: "soft" });
  const element = html(
    "section",
    { class: "card", "aria-labelledby": "output" },
    html("header", {}, html("h2", { id: "output", text: "Container output" }), note),
    text,
  );
  const controller = new AbortController();
  let loaded = null;

  /** Follow the output of a running bot, or read the output of an ended bot once. */
  async function load(bot) {
    if (hasNotStarted(bot.status)) {
      setText(note, "The container has not started yet.");
      return;
    }
    const ended = isFinal(bot.status);
    const wanted = `${bot.attempts} ${ended}`;
    if (loaded === wanted || loaded === `${bot.attempts} false`) return;
    loaded = wanted;
    try {
      await read(ended);
    } catch (error) {
      if (!controller.signal.aborted) setText(note, `Not available: ${error.message}`);
      loaded = null;
    }
  }

  async function read(ended) {
    const path = `v1/bots/${id}/logs?tail=${TAIL}&follow=${!ended}`;
    const response = await fetchResponse(path, { signal: controller.signal });
    setText(note, ended ? "" : "live");
    text.textContent = "";
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      append(value);
    }
    const empty = text.textContent === "";
    setText(note, empty ? "No output, or the container no longer exists." : "ended");
  }

  function append(piece) {
    const atEnd = text.scrollTop + text.clientHeight > text.scrollHeight - 30;
    text.append(piece);
    if (text.textContent.length > MAX_CHARACTERS)
      text.textContent = text.textContent.slice(-MAX_CHARACTERS / 2);
    if (atEnd) text.scrollTop = text.scrollHeight;
  }

  return { element, load, close: () => controller.abort() };
}

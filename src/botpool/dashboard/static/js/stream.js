/** Server-Sent Events over fetch: unlike EventSource it tells *why* a stream ended (a key that is
 * no longer valid, a server that restarts), and it ends a connection that has fallen silent. */
import { Trouble, open } from "./http.js";

/** The server says every five seconds that it lives. */
const SILENCE_MS = 20_000;

/** Opens the stream after event `lastId`; resolves once the server has answered. */
export async function connect(path, { lastId, signal }) {
  const silence = new AbortController();
  const headers = { Accept: "text/event-stream", ...(lastId && { "Last-Event-ID": lastId }) };
  const answer = await open(path, { headers, signal: AbortSignal.any([signal, silence.signal]) });
  return batches(answer.body.getReader(), silence);
}

/** Yields the events of each chunk together: what arrives at once is shown at once. One without
 * data tells no more than where the stream stands. */
async function* batches(reader, silence) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const patience = setTimeout(() => silence.abort(), SILENCE_MS);
    const { done, value } = await reader
      .read()
      .catch(() => {
        throw new Trouble(0, "the connection was lost.");
      })
      .finally(() => clearTimeout(patience));
    if (done) throw new Trouble(0, "the server has closed the connection.");
    const blocks = (rest + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    if (blocks.length) yield blocks.map(parse);
  }
}

function parse(block) {
  const event = { id: null, name: "message", data: null };
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = line.match(/^(\w+): ?(.*)$/) ?? [];
    if (field === "id") event.id = value;
    else if (field === "event") event.name = value;
    else if (field === "data") event.data = event.data === null ? value : `${event.data}\n${value}`;
  }
  return event;
}

/** Reads Server-Sent Events with fetch. Unlike EventSource, fetch gives the reason why a stream
 * ended, and lets the page close a silent connection. */
import { fetchResponse, RequestError } from "./http.js";

/** The server sends a comment every five seconds. */
const SILENCE_MS = 20_000;

/** Open the stream after event `lastId`. Resolves once the server has answered. */
export async function connect(path, { lastId, signal }) {
  const silence = new AbortController();
  const headers = { Accept: "text/event-stream", ...(lastId && { "Last-Event-ID": lastId }) };
  const signals = AbortSignal.any([signal, silence.signal]);
  const response = await fetchResponse(path, { headers, signal: signals });
  return readChunks(response.body.getReader(), silence);
}

/** Yield the events of each chunk together. An event without data only carries a new last id. */
async function* readChunks(reader, silence) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const timer = setTimeout(() => silence.abort(), SILENCE_MS);
    const { done, value } = await reader
      .read()
      .catch(() => {
        throw new RequestError(0, "the connection was lost.");
      })
      .finally(() => clearTimeout(timer));
    if (done) throw new RequestError(0, "the server has closed the connection.");
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

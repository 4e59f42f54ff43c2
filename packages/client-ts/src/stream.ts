/** Reads text and Server-Sent Events from a response as they arrive. */

/** A change of a bot, a slot or a pool. */
export interface Change {
  event: "change";
  /** Continue after this change with `changes({after: cursor})`. */
  cursor: string;
  at: string;
  kind: string;
  platform: string | null;
  botId: number | null;
  slotId: number | null;
  slotName: string | null;
  from: string | null;
  to: string | null;
  reason: string;
  correlationId: string | null;
  data: Record<string, unknown> | null;
}

/** Changes are missing: load the current state again. */
export interface Reset {
  event: "reset";
  cursor: string;
  reason: string;
}

/** Yield the changes and resets of a stream until it ends. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<Change | Reset> {
  let text = "";
  for await (const part of readText(body)) {
    const blocks = (text + part).split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = parse(block);
      if (event !== null) yield event;
    }
  }
}

/** Yield the text of a response in the parts in which it arrives. */
export async function* readText(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function parse(block: string): Change | Reset | null {
  const fields: Record<string, string> = {};
  for (const line of block.split("\n")) {
    const [, name, value] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) fields[name] = value;
  }
  const { event, id, data } = fields;
  if ((event !== "change" && event !== "reset") || data === undefined) return null;
  return { ...JSON.parse(data), event, cursor: id ?? "" };
}

// A bot that talks to Botpool as Meeboter's bots do, with the public packages @trpc/client and
// superjson. `botData.scenario` says what it does. It runs in a container of a pool with
// `protocol = "meeboter"`, or with the same variables in its environment.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.TRPC_PACKAGES}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { createTRPCClient, httpBatchLink, TRPCClientError } = await load("@trpc/client");
const superjson = (await load("superjson")).default;

const url = process.env.MILO_URL;
const token = process.env.MILO_AUTH_TOKEN;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const say = (name, value) => console.log(JSON.stringify({ [name]: value }));

const client = createTRPCClient({
  links: [
    httpBatchLink({
      url: `${url}/api/trpc`,
      transformer: superjson.default ?? superjson,
      headers: () => ({ "X-Milo-Token": token }),
    }),
  ],
});

async function identity() {
  try {
    return await client.infrastructure.coolify.pool.getSlot.query({
      poolSlotUuid: process.env.POOL_SLOT_UUID,
    });
  } catch (error) {
    if (error instanceof TRPCClientError && error.message.includes("PRECONDITION_FAILED")) {
      say("exit", error.message);
      process.exit(0);
    }
    throw error;
  }
}

const config = await identity();
if (!(config.startTime instanceof Date)) throw new Error("startTime is no Date");
const id = String(config.id);
const scenario = process.env.SCENARIO ?? "meeting";
say("config", { platform: config.meeting.platform, undefinedUrl: config.imageUrl === undefined });

const report = (eventType, data = null) =>
  client.bots.events.report.mutate({ id, event: { eventType, eventTime: new Date(), data } });
const update = (status, more = {}) => client.bots.updateStatus.mutate({ id, status, ...more });
const log = (level, message) =>
  client.bots.logs.stream.mutate({
    botId: id,
    entries: [{ id: crypto.randomUUID(), botId: config.id, timestamp: new Date(), level, message }],
  });

async function screenshot() {
  const picture = Buffer.from(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "base64",
  );
  const form = new FormData();
  form.append("file", new Blob([picture], { type: "image/png" }), "screenshot.png");
  form.append("type", "error");
  form.append("state", "IN_CALL");
  form.append("trigger", scenario);
  const response = await fetch(`${url}/api/bots/${id}/screenshots`, {
    method: "POST",
    headers: { "X-Milo-Token": token },
    body: form,
  });
  say("screenshot", [response.status, (await response.json()).type]);
}

async function join() {
  await Promise.all([report("JOINING_CALL"), update("JOINING_CALL")]);
  await Promise.all([report("IN_CALL"), update("IN_CALL")]);
}

async function stay() {
  let shouldLeave = false;
  while (!shouldLeave) {
    const [beat, message] = await Promise.all([
      client.bots.sendHeartbeat.mutate({ id }),
      client.bots.chat.dequeueMessage.query({ botId: id }),
    ]);
    if (message) say("chat", [message.messageText, message.userId]);
    shouldLeave = beat.shouldLeave;
    await sleep(50);
  }
}

if (scenario === "fatal") {
  await join();
  await screenshot();
  await report("FATAL", { description: "The host removed the bot.", sub_code: undefined });
  say("status", (await update("FATAL")).status);
} else {
  await join();
  if (scenario === "restart") {
    await report("RESTARTING", { description: "Restart attempt 1/3: x", sub_code: "RESTART_1" });
    await join();
  }
  say("log", await log("ERROR", "no camera"));
  await stay();
  say("flush", await client.bots.logs.flush.mutate({ botId: id }));
  const done = await update("DONE", {
    recording: `bots/${id}/recordings/a.mp4`,
    speakerTimeframes: [{ start: 0, end: 1000, speakerName: "Ada" }],
  });
  say("status", [done.status, done.createdAt instanceof Date]);
}
// The slot is released now: a container that starts again must exit.
await identity();

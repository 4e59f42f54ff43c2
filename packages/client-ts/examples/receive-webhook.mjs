// Receives events of bots, and verifies them with the public package `standardwebhooks`.
//
//     BOTPOOL_API_KEY=... node receive-webhook.mjs
import { createServer } from "node:http";

import { Botpool } from "botpool-client";
import { Webhook } from "standardwebhooks";

const botpool = new Botpool();
const seen = new Set();
let verifier;

const server = createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  try {
    verifier.verify(body, request.headers);
  } catch {
    response.writeHead(400).end();
    return;
  }
  const id = request.headers["webhook-id"];
  if (!seen.has(id)) {
    seen.add(id); // an event can arrive twice
    const { type, data } = JSON.parse(body);
    console.log(`${type} of bot ${data.botId}`);
  }
  response.writeHead(204).end();
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const url = `http://127.0.0.1:${server.address().port}/`;
const { webhook, secret } = await botpool.createWebhook({ url, events: ["bot.done", "bot.failed"] });
verifier = new Webhook(secret);

const { delivery } = await botpool.testWebhook(webhook.id, { event: "bot.failed" });
console.log(`the test was answered with ${delivery.response.status}`);
await botpool.deleteWebhook(webhook.id);
server.close();

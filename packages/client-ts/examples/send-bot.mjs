// Sends a bot into a meeting, waits until it is in the call, asks it to leave, and prints its history.
//
//     BOTPOOL_API_KEY=... node send-bot.mjs https://meet.google.com/abc-defg-hij
import { Botpool } from "botpool-client";

const botpool = new Botpool();
const { bot } = await botpool.createBot({
  meetingUrl: process.argv[2] ?? "https://meet.google.com/abc-defg-hij",
  botDisplayName: "Scribe",
  botData: { joinSeconds: 0, staySeconds: 300 },
});
console.log(`bot ${bot.id} is ${bot.status}`);

await botpool.wait(bot.id, { until: ["IN_CALL"], timeoutMs: 600_000 });
console.log(`bot ${bot.id} is in the call`);

await botpool.stopBot(bot.id);
const ended = await botpool.wait(bot.id, { timeoutMs: 120_000 });
console.log(`bot ${bot.id} ended ${ended.status}`);

const { events } = await botpool.botEvents(bot.id);
for (const { kind, from, to } of events) console.log(`${kind} ${from} -> ${to}`);

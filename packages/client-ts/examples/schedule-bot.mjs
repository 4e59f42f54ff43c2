// Books a bot for a meeting, moves it to an earlier time, follows its output, and prints the phases of its life.
//
//     BOTPOOL_API_KEY=... node schedule-bot.mjs https://meet.google.com/abc-defg-hij
import { Botpool } from "botpool-client";

const botpool = new Botpool();
const inMs = (ms) => new Date(Date.now() + ms).toISOString();

const booked = await botpool.createBot({
  meetingUrl: process.argv[2] ?? "https://meet.google.com/abc-defg-hij",
  botData: { joinSeconds: 0, staySeconds: 1 },
  joinAt: inMs(24 * 3_600_000),
});
const id = booked.bot.id;
console.log(`bot ${id} is ${booked.bot.status}, with a reserved slot: ${booked.bot.reserved}`);

const { bot } = await botpool.updateBot(id, { joinAt: inMs(2_000), botDisplayName: "Scribe" });
console.log(`${bot.botDisplayName} joins ${booked.bot.joinAt > bot.joinAt ? "earlier" : "later"}`);

await botpool.wait(id, { until: ["JOINING_CALL", "IN_CALL", "CALL_ENDED", "DONE"], timeoutMs: 600_000 });
for await (const text of botpool.followLogs(id)) process.stdout.write(text);

console.log(`bot ${id} ended ${(await botpool.wait(id, { timeoutMs: 120_000 })).status}`);
const { phases } = await botpool.botTimeline(id);
console.log(phases.map(({ phase }) => phase).join(" > "));

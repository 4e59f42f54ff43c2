// A bot that knows nothing of Botpool but two variables. It leaves on SIGTERM.
const { BOTPOOL_STATUS_URL, BOT_MEETING_URL, BOT_DATA_exitCode } = process.env;

async function post(status) {
  const body = JSON.stringify({ status });
  const response = await fetch(BOTPOOL_STATUS_URL, { method: "POST", body });
  if (!response.ok) throw new Error(await response.text());
}

process.on("SIGTERM", async () => {
  await post("CALL_ENDED");
  console.log("recording saved");
  process.exit(0);
});
console.log(`joining ${new URL(BOT_MEETING_URL).host} as child of process ${process.ppid}`);
await post("IN_CALL");
if (BOT_DATA_exitCode) {
  console.error("the host has removed the bot");
  process.exit(Number(BOT_DATA_exitCode));
}
setInterval(() => {}, 1000);

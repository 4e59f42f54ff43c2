// A bot on the TypeScript agent that follows the plan in its `botData` (see `tests/agents/plan.py`).
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const { Agent, Released } = await import(process.env.SCRIPTED_AGENT);

async function follow(agent, [step, ...values]) {
  switch (step) {
    case "report":
      return agent.report(values[0]);
    case "fail":
      return agent.report("FAILED", { reason: values[0] });
    case "event":
      return agent.event(...values);
    case "progress":
      return agent.progress(values[0]);
    case "finishing":
      return agent.finishing();
    case "await leave":
      return agent.leaveRequested.wait();
    case "await exit":
      return agent.exitRequested.wait();
    case "await file":
      while (!existsSync(values[0])) await sleep(10);
      return;
    case "end":
      return agent.report(values[0], { endReason: values[1] });
    case "media":
      return agent.media();
    case "artifact":
      return agent.artifact(values[0], values[1], { sizeBytes: values[2] });
    case "commands":
      return agent.onCommand(({ id, kind, data }) => console.log(`command ${id} ${kind} ${data.text}`));
    case "print":
      return console.log(values[0]);
    case "raise":
      throw new Error(values[0]);
  }
}

try {
  const { timeoutS, backoffS } = JSON.parse(process.env.SCRIPTED_OPTIONS);
  const backoff = { firstS: backoffS / 60, capS: backoffS };
  const agent = Agent.fromEnvironment(process.env, { timeoutS, backoff });
  process.on("SIGTERM", () => agent.leave());
  await agent.run(async () => {
    console.log(`bot ${agent.bot.id} ${agent.bot.meetingUrl}`);
    for (const step of agent.botData.plan) await follow(agent, step);
  });
  process.exit(0);
} catch (error) {
  console.error(error.message);
  process.exit(error instanceof Released ? 0 : 1);
}

/**
 * A bot with a real browser: opens the meeting's page and stays until it is asked to leave.
 *
 * This is a starting point: add the clicks that your meeting page needs (a name, the microphone, "Ask
 * to join") to `join`. The bot saves a screenshot in `SCREENSHOTS` (default: the working directory)
 * when it has joined and when it leaves, and reports each file as an event.
 *
 * `CHROMIUM` names the browser; `botData.staySeconds` limits the stay.
 */
import { join as joinPath } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { Agent, Released } from "botpool-agent";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const SCREENSHOTS = process.env["SCREENSHOTS"] ?? ".";
const LONGEST_STAY_S = 6 * 3600;
const ARGUMENTS = [
  // The container isolates this browser; Chromium's own sandbox needs rights that it lacks.
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  // A container has no camera: the page gets a test picture and a tone.
  "--use-fake-ui-for-media-stream",
  "--use-fake-device-for-media-stream",
  "--disable-background-networking",
  "--disable-component-update",
];

/** Opens the meeting. Add the clicks that the meeting page needs here. */
async function join(page: Page, agent: Agent): Promise<void> {
  await page.goto(agent.bot.meetingUrl, { waitUntil: "domcontentloaded" });
}

async function attend(agent: Agent, browser: Browser): Promise<void> {
  agent.report("JOINING_CALL");
  const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
  try {
    await join(page, agent);
  } catch (error) {
    agent.report("FAILED", { reason: `The meeting cannot be opened: ${firstLine(error)}` });
    return;
  }
  agent.report("IN_CALL");
  await photograph(page, agent, "joined");
  await stay(agent, page);
  await photograph(page, agent, "leaving");
  agent.report("CALL_ENDED");
}

/** Waits until the bot is asked to leave, its time is over, or the page is closed. */
async function stay(agent: Agent, page: Page): Promise<void> {
  const limitS = Number(agent.botData["staySeconds"] ?? LONGEST_STAY_S);
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([
    agent.leaveRequested.wait(),
    new Promise((resolve) => (timer = setTimeout(resolve, limitS * 1000))),
    new Promise((resolve) => page.once("close", resolve)),
    new Promise((resolve) => page.once("crash", resolve)),
  ]);
  clearTimeout(timer);
}

async function photograph(page: Page, agent: Agent, moment: string): Promise<void> {
  const path = joinPath(SCREENSHOTS, `bot-${agent.bot.id}-${moment}.png`);
  try {
    await page.screenshot({ path });
    console.log(`picture in ${path}`);
    agent.event("screenshot", { path, title: await page.title() });
  } catch (error) {
    console.log(`no picture: ${firstLine(error)}`);
  }
}

function firstLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split("\n")[0] ?? "";
}

try {
  await Agent.fromEnvironment().run(async (agent) => {
    // The backend stops a container with SIGTERM: treat it as a request to leave.
    process.on("SIGTERM", () => agent.leave());
    const browser = await chromium.launch({
      executablePath: CHROMIUM,
      args: ARGUMENTS,
      handleSIGTERM: false,
    });
    try {
      await attend(agent, browser);
    } finally {
      await browser.close();
    }
  });
} catch (error) {
  console.log(firstLine(error));
  process.exitCode = error instanceof Released ? 0 : 1;
}

"""A bot with a real browser: opens the meeting's page and stays until it is asked to leave.

This is a starting point: add the clicks that your meeting page needs (a name, the microphone, "Ask
to join") to `join`. The bot saves a screenshot in `SCREENSHOTS` (default: the working directory)
when it has joined and when it leaves, and reports each file as an event.

`CHROMIUM` names the browser; `botData.staySeconds` limits the stay.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from playwright.async_api import Browser, Error, Page, async_playwright

from botpool.agent import Agent, AgentError, Released

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
SCREENSHOTS = Path(os.environ.get("SCREENSHOTS", "."))
LONGEST_STAY_S = 6 * 3600
ARGUMENTS = [
    # The container isolates this browser; Chromium's own sandbox needs rights that it lacks.
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    # A container has no camera: the page gets a test picture and a tone.
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--disable-background-networking",
    "--disable-component-update",
]


async def join(page: Page, agent: Agent) -> None:
    """Open the meeting. Add the clicks that the meeting page needs here."""
    await page.goto(agent.bot.meeting_url, wait_until="domcontentloaded")


async def attend(agent: Agent, browser: Browser) -> None:
    await agent.report("JOINING_CALL")
    page = await browser.new_page(viewport={"width": 1280, "height": 720})
    try:
        await join(page, agent)
    except Error as error:
        await agent.report("FAILED", reason=f"The meeting cannot be opened: {first_line(error)}")
        return
    await agent.report("IN_CALL")
    await photograph(page, agent, "joined")
    await stay(agent, page)
    await photograph(page, agent, "leaving")
    await agent.report("CALL_ENDED")


async def stay(agent: Agent, page: Page) -> None:
    """Wait until the bot is asked to leave, its time is over, or the page is closed."""
    closed = asyncio.Event()
    page.on("close", lambda _: closed.set())
    page.on("crash", lambda _: closed.set())
    limit_s = float(agent.bot_data.get("staySeconds", LONGEST_STAY_S))
    reasons = [asyncio.create_task(each.wait()) for each in (agent.leave_requested, closed)]
    await asyncio.wait(reasons, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    for reason in reasons:
        reason.cancel()


async def photograph(page: Page, agent: Agent, moment: str) -> None:
    path = SCREENSHOTS / f"bot-{agent.bot.id}-{moment}.png"
    try:
        await page.screenshot(path=path)
    except (Error, OSError) as error:
        say(f"no picture: {first_line(error)}")
        return
    say(f"picture in {path}")
    await agent.event("screenshot", {"path": str(path), "title": await page.title()})


def first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the output of a container is for people


async def run() -> None:
    async with Agent.from_environment() as agent, async_playwright() as playwright:
        # The backend stops a container with SIGTERM: treat it as a request to leave.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, agent.leave)
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            await attend(agent, browser)
        finally:
            await browser.close()


def main() -> int:
    try:
        asyncio.run(run())
    except Released as released:
        say(str(released))
    except (AgentError, Error) as error:
        say(first_line(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

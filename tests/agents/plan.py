"""The programs of the conformance suite: one scripted bot for each agent.

A bot follows a plan, a list of steps in its `botData`: `["report", status]`, `["fail", reason]`,
`["event", kind, data]`, `["progress", figures]`, `["finishing"]`, `["await leave"]`,
`["await exit"]`, `["await file", path]`, `["print", text]`, `["raise", text]`,
`["end", status, reason]`, `["media"]`, `["artifact", kind, location, bytes]`, and
`["commands"]`, which prints each command that arrives from then on. Each bot prints its id and
meeting link first, leaves on SIGTERM and ends after the last step.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.agent_programs import NODE_PACKAGES, node, wrapper_program
from tests.support.fake_control_plane import ControlPlane

BOTS = Path(__file__).with_name("bots")
LIMIT_S = 60.0
"""For whatever must happen at some time; only a defect takes so long."""


def until(holds: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < give_up_at, "it did not happen"
        time.sleep(0.005)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the agents, fast by default: no delay between retries is longer than 0.05 s."""

    timeout_s: float = 10.0
    backoff_s: float = 0.05

    def environment(self) -> str:
        return json.dumps({"timeoutS": self.timeout_s, "backoffS": self.backoff_s})

    def flags(self) -> list[str]:
        return [f"--timeout={self.timeout_s}s", f"--backoff={self.backoff_s}s"]


def python_bot(_: Options) -> list[str]:
    return [sys.executable, str(BOTS / "scripted_bot.py")]


def typescript_bot(_: Options) -> list[str]:
    return [node(), str(BOTS / "scripted_bot.mjs")]


def wrapped_bot(options: Options) -> list[str]:
    command = [sys.executable, str(BOTS / "scripted_command.py")]
    return [str(wrapper_program()), "run", *options.flags(), "--", *command]


AGENTS: dict[str, Callable[[Options], list[str]]] = {
    "python": python_bot,
    "typescript": typescript_bot,
    "wrapper": wrapped_bot,
}


@dataclass(slots=True)
class Running:
    """A running agent with its output."""

    process: "subprocess.Popen[bytes]"
    output_path: Path

    @property
    def output(self) -> str:
        return self.output_path.read_text(errors="replace")

    def has_begun(self) -> bool:
        """Whether the bot follows its plan, and handles SIGTERM."""
        return "bot 7" in self.output

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def exit_code(self) -> int:
        """Wait for the end."""
        return self.process.wait(LIMIT_S)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Send SIGTERM until the agent ends: one that arrives too early asks the bot to leave."""

        def ended() -> bool:
            self.terminate()
            self.wait_a_moment(0.05)
            return self.has_ended()

        until(ended)

    def wait_a_moment(self, seconds: float) -> None:
        """Give the agent time to do what it must not do; a busy machine cannot make this fail."""
        time.sleep(seconds)


@dataclass
class Launcher:
    """Starts agents against a fake control plane and kills those that a test leaves behind."""

    plane: ControlPlane
    folder: Path
    command: Callable[[Options], list[str]]
    started: list[Running] = field(default_factory=list)

    def start(
        self, *plan: Sequence[object], options: Options | None = None, **environment: str | None
    ) -> Running:
        self.plane.bot_data = {"plan": [list(step) for step in plan]}
        options = options or Options()
        return self.run(self.command(options), options, **environment)

    def run(
        self,
        command: Sequence[str],
        options: Options | None = None,
        *,
        separate_errors: bool = False,
        **environment: str | None,
    ) -> Running:
        """Start a command; a variable that is None is left out of its environment."""
        path = self.folder / f"output-{len(self.started)}"
        errors_path = path.with_suffix(".errors") if separate_errors else path
        bot_data = {"id": 7, "correlationId": "corr-1", "meetingUrl": "https://zoom.us/j/1?pwd=x"}
        chosen = {
            "PATH": os.environ["PATH"],
            **self.plane.environment(),
            "BOT_DATA": json.dumps({**bot_data, "botData": self.plane.bot_data}),
            "SCRIPTED_OPTIONS": (options or Options()).environment(),
            "SCRIPTED_AGENT": str(NODE_PACKAGES / "botpool-agent" / "dist" / "index.js"),
            **environment,
        }
        with path.open("ab") as output, errors_path.open("ab") as errors:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                env={name: value for name, value in chosen.items() if value is not None},
            )
        running = Running(process, path)
        self.started.append(running)
        return running


@contextmanager
def launcher(
    plane: ControlPlane, folder: Path, command: Callable[[Options], list[str]]
) -> Iterator[Launcher]:
    launched = Launcher(plane, folder, command)
    try:
        yield launched
    finally:
        for each in launched.started:
            each.process.kill()
            each.process.wait()

"""Runs the commands of a page in a sandbox with a network and processes of its own.

The sandbox has the ports of the page to itself and reaches no other machine. Its directory looks
like a checkout whose `.venv` holds the wheel.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.components import missing
from tests.support.docs_pages import ROOT, Block, Command

_CHECKOUT = ("Makefile", "requirements", "scripts", "examples", "deploy", "spec", "pyproject.toml")
_NAMESPACES = ("unshare", "--net", "--ipc", "--pid", "--mount-proc", "--fork", "--kill-child")
_PRELUDE = """\
set -m
ip link set lo up
press_ctrl_c() { for pid in $(jobs -pr); do kill -INT -- "-$pid"; done; wait; }
await_text() {
    until grep -qF -- "$1" ".job-$server.log"; do
        kill -0 "$!" 2>/dev/null || return 1
        sleep 0.2
    done
}
"""
_MARK = "@@docs"
_VARYING = re.compile(
    r"\d+(?:\.\d+)?(?= ?(?:ms\b|s\b|%))|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|…|\.\.\."
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command with its place, and how it should end."""

    place: str
    command: Command
    exit_code: int


def run_page(blocks: Sequence[Block], programs: Path, folder: Path, *, timeout_s: float) -> None:
    """Run the blocks of a page in order; the first command that differs from the page fails."""
    if subprocess.run([*_NAMESPACES, "ip", "link"], capture_output=True).returncode:
        missing("namespaces", "needs root, util-linux and iproute2")
    _lay_out(folder, programs)
    steps, script = _script(blocks)
    (folder / ".docs.sh").write_text(script)
    environment = {
        "PATH": f"{programs}:{os.defpath}:/usr/sbin:/sbin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
    }
    with (folder / ".docs.log").open("wb") as log:
        ran = subprocess.Popen(
            [*_NAMESPACES, "bash", ".docs.sh"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        try:
            ran.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass  # the check below names the command that has no end
        finally:
            ran.kill()
            ran.wait()
    _check(steps, (folder / ".docs.log").read_text(errors="replace"), folder)


def _lay_out(folder: Path, programs: Path) -> None:
    for name in _CHECKOUT:
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").mkdir()
    for part in programs.parent.iterdir():
        (folder / ".venv" / part.name).symlink_to(part)
    (folder / ".venv" / ".home").write_text(str(folder))
    for stamp in (".installed-run", ".installed-dev"):
        (folder / ".venv" / stamp).touch()


def _script(blocks: Sequence[Block]) -> tuple[list[Step], str]:
    """The steps of a page and the shell script that runs them, with marks between them."""
    steps: list[Step] = []
    script = [_PRELUDE]
    if not re.search(
        r"\b(?:make|botpool) (?:up|emulate)\b", "".join(block.text for block in blocks)
    ):
        script.append(_in_background("botpool up", "http://127.0.0.1:8700", "up"))
    for block in blocks:
        if block.file:
            script.append(f"cat > {block.file} <<'{_MARK}'\n{block.text}{_MARK}")
            continue
        for step, text in _steps(block, first=len(steps)):
            script.append(f"printf '\\n%s\\n' '{_MARK} {len(steps)} begins'")
            script.append(text)
            script.append(f"printf '\\n%s %s\\n' '{_MARK} {len(steps)} ended' $?")
            steps.append(step)
    return steps, "\n".join(script) + "\n"


def _steps(block: Block, *, first: int) -> Iterator[tuple[Step, str]]:
    """The steps of one block, each with its text for the script."""
    place = f"{block.page}:{block.line}"
    if block.is_server_output:
        for line in block.text.splitlines():
            yield Step(place, Command(f"await_text '{line}'", ()), 0), f"await_text '{line}'"
        return
    commands = block.commands()
    for number, command in enumerate(commands, start=first):
        text, exit_code = command.text, 0
        if command is commands[-1]:
            exit_code = block.exit_code
            if running := block.keeps_running:
                text = _in_background(text, running["ready"], str(number))
                text = f"press_ctrl_c\n{text}" if running["stop"] else text
        yield Step(place, command, exit_code), text


def _in_background(command: str, ready: str, name: str) -> str:
    return f"server={name}\n{{ {command}\n}} > .job-{name}.log 2>&1 &\nawait_text '{ready}'"


def _check(steps: Sequence[Step], output: str, folder: Path) -> None:
    for number, step in enumerate(steps):
        mark = f"{_MARK} {number}"
        printed = output.partition(f"{mark} begins\n")[2].partition(f"\n{_MARK}")[0]
        described = f"{step.place}\n$ {step.command.text}\n{printed}\n{_job_logs(folder)}"
        end = re.search(rf"^{mark} ended (\d+)$", output, re.MULTILINE)
        assert end, f"did not end: {described}"
        assert int(end[1]) == step.exit_code, f"exit code {end[1]}: {described}"
        lines = iter(printed.splitlines())
        for shown in filter(str.strip, step.command.shown):
            pattern = _as_pattern(shown)
            assert any(map(pattern.fullmatch, lines)), f"printed no {shown!r}: {described}"


def _as_pattern(shown: str) -> re.Pattern[str]:
    """A pattern for a line of output: durations, shares, times and `…` may differ."""
    parts = [re.sub(r"(\\ )+", r"\\s+", re.escape(part)) for part in _VARYING.split(shown.strip())]
    return re.compile(r"\s*" + ".*".join(parts) + r"\s*")


def _job_logs(folder: Path) -> str:
    return "\n".join(
        f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
        for path in sorted(folder.glob(".job-*.log"))
    )

"""The console blocks of the documentation, with the remarks that say how a test runs them.

A remark is an HTML comment directly above a fenced block; readers of the built pages do not see it:

- `<!-- file: NAME -->`: the block is the contents of this file.
- `<!-- keeps running, prints: TEXT -->`: the last command is a server, ready when it prints this.
- `<!-- Ctrl-C, then keeps running, prints: TEXT -->`: the same, after Ctrl-C for earlier servers.
- `<!-- printed by the last server -->`: the last server prints these lines, in any order.
- `<!-- exits with 1 -->`: the last command ends with this exit code instead of 0.
- `<!-- not run: REASON -->`: the test does not run the block; `NOT_RUN` lists the reasons.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_RUN = frozenset({
    "needs Docker", "needs a Kubernetes cluster", "needs a Meeboter database", "needs root",
    "needs systemd", "needs the internet", "is part of make test",
    "shows a fault of the infrastructure",
})  # fmt: skip
_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<remark>[^\n]+) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_KEEPS_RUNNING = re.compile(r"(?P<stop>Ctrl-C, then )?keeps running, prints: (?P<ready>.+)")


@dataclass(frozen=True, slots=True)
class Command:
    """A command after its prompt, with the output that the page shows."""

    text: str
    shown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page, with its remark."""

    page: str
    line: int
    language: str
    text: str
    remark: str

    @property
    def not_run(self) -> str | None:
        """The reason for which no test runs this block."""
        return self._after("not run: ")

    @property
    def file(self) -> str | None:
        return self._after("file: ")

    @property
    def keeps_running(self) -> re.Match[str] | None:
        return _KEEPS_RUNNING.fullmatch(self.remark)

    @property
    def is_server_output(self) -> bool:
        return self.remark == "printed by the last server"

    @property
    def exit_code(self) -> int:
        return int(self._after("exits with ") or 0)

    def _after(self, words: str) -> str | None:
        return self.remark.removeprefix(words) if self.remark.startswith(words) else None

    def commands(self) -> list[Command]:
        """The commands of a console block: lines after `$ `, with their continuation."""
        commands: list[tuple[list[str], list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                commands.append(([line[2:]], []))
            elif commands[-1][0][-1].endswith("\\"):
                commands[-1][0].append(line)
            else:
                commands[-1][1].append(line)
        return [Command("\n".join(text), tuple(shown)) for text, shown in commands]


def pages() -> list[Path]:
    """All pages that a person wrote or a script generated."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]


def blocks(page: Path) -> Iterator[Block]:
    """The console blocks and files of a page, in order."""
    text = page.read_text()
    for found in _BLOCK.finditer(text):
        block = Block(
            page=str(page.relative_to(ROOT)),
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            text=re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            remark=(found["remark"] or "").strip(),
        )
        if block.language == "console" or block.file or block.is_server_output:
            yield block

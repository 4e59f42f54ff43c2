"""Programs whose clock a test can set, with libfaketime: a PostgreSQL, or any other."""

from pathlib import Path

from tests.support.components import missing
from tests.support.postgres import TestPostgres

_FOLDER = Path("/usr/lib")


def set_clock_file(clock: Path, offset_s: int) -> None:
    """Let the clock of a program differ from the machine's by so many seconds."""
    replacement = clock.with_suffix(".new")
    replacement.write_text(f"{offset_s:+d}s\n")
    replacement.chmod(0o644)
    replacement.replace(clock)


def faked_clock_command(clock: Path) -> list[str]:
    """Return the beginning of a command whose program reads its clock through libfaketime.

    Monotonic clocks stay as they are.
    """
    library = next(_FOLDER.glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        missing("libfaketime", "install the package libfaketime")
    set_clock_file(clock, 0)
    return [
        "/usr/bin/env",
        f"LD_PRELOAD={library}",
        f"FAKETIME_TIMESTAMP_FILE={clock}",
        "FAKETIME_NO_CACHE=1",
        "FAKETIME_DONT_FAKE_MONOTONIC=1",
    ]


class FakedClockPostgres(TestPostgres):
    """A PostgreSQL that reads its clock through libfaketime."""

    def set_clock(self, offset_s: int) -> None:
        """Let the clock differ from the machine's by so many seconds."""
        set_clock_file(self.directory / "clock", offset_s)

    def _wrapper(self) -> list[str]:
        return faked_clock_command(self.directory / "clock")

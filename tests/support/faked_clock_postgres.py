"""A PostgreSQL whose clock a test can set, with libfaketime."""

from pathlib import Path

from tests.support.components import missing
from tests.support.postgres import TestPostgres

_FOLDER = Path("/usr/lib")


class FakedClockPostgres(TestPostgres):
    """Reads its clock through libfaketime; monotonic clocks stay as they are."""

    def set_clock(self, offset_s: int) -> None:
        """Let the clock differ from the machine's by so many seconds."""
        replacement = self.directory / "clock.new"
        replacement.write_text(f"{offset_s:+d}s\n")
        replacement.chmod(0o644)
        replacement.replace(self.directory / "clock")

    def _wrapper(self) -> list[str]:
        library = next(_FOLDER.glob("*/faketime/libfaketime.so.1"), None)
        if library is None:
            missing("libfaketime", "install the package libfaketime")
        self.set_clock(0)
        return [
            "/usr/bin/env",
            f"LD_PRELOAD={library}",
            f"FAKETIME_TIMESTAMP_FILE={self.directory / 'clock'}",
            "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
        ]

"""The base of all errors, and those of the installation itself."""

from dataclasses import dataclass
from typing import ClassVar


class BotpoolError(Exception):
    """The base of all errors of Botpool."""

    template: ClassVar[str | None] = None
    """The message, which is formatted with the fields of the error."""

    def __str__(self) -> str:
        return self.template.format_map(vars(self)) if self.template else super().__str__()


@dataclass(eq=False)
class SettingError(BotpoolError):
    """A setting is invalid; the message names it and the remedy."""

    template = "{setting}: {problem}"
    setting: str
    problem: str


class ImportRefused(BotpoolError):
    """The import from another system cannot be done; the message says what to do."""


@dataclass(eq=False)
class AlreadyRunning(BotpoolError):
    data_dir: str
    pid: int | None

    def __str__(self) -> str:
        process = f" (process {self.pid})" if self.pid else ""
        return (
            f"Botpool already runs on the data directory {self.data_dir}{process}. "
            "Use it, stop it first, or choose another directory with --data-dir."
        )

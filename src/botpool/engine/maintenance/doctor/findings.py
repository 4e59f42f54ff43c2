"""What an examination gives: for each check a result, what was found, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    check: str
    meaning: str
    """What holds when all is well."""
    result: Result
    found: str
    remedy: str = ""
    """What to do; nothing where all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question, the same in the table of the command and in the docs."""

    name: str
    meaning: str
    remedy: str

    def ok(self, found: str = "") -> Finding:
        return self._finding(Result.OK, found)

    def warning(self, found: str) -> Finding:
        return self._finding(Result.WARNING, found, self.remedy)

    def wrong(self, found: str) -> Finding:
        return self._finding(Result.WRONG, found, self.remedy)

    def not_examined(self, problem: object) -> Finding:
        """Unknown is neither well nor wrong."""
        return self.warning(f"could not be examined: {problem}")

    def _finding(self, result: Result, found: str, remedy: str = "") -> Finding:
        return Finding(
            check=self.name, meaning=self.meaning, result=result, found=found, remedy=remedy
        )

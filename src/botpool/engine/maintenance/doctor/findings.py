"""Checks and their findings: a result, the details and a remedy."""

from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of one check."""

    check: str
    meaning: str
    """The condition under which the check passes."""
    result: Result
    found: str
    remedy: str = ""
    """What to do; empty if the check passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check as the command and the docs list it."""

    name: str
    meaning: str
    remedy: str

    def ok(self, found: str = "") -> Finding:
        return self._finding(Result.OK, found)

    def warning(self, found: str) -> Finding:
        return self._finding(Result.WARNING, found, self.remedy)

    def wrong(self, found: str) -> Finding:
        return self._finding(Result.WRONG, found, self.remedy)

    def not_checked(self, problem: object) -> Finding:
        """Report that the check could not run, as a warning."""
        return self.warning(f"could not be checked: {problem}")

    def _finding(self, result: Result, found: str, remedy: str = "") -> Finding:
        return Finding(
            check=self.name, meaning=self.meaning, result=result, found=found, remedy=remedy
        )

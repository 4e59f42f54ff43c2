"""The limit of open files: raised as far as necessary, and connections that fit into it."""

import json
import subprocess
import sys

import pytest

from botpool.api.connections import ConnectionLimits
from botpool.api.file_limit import backlog_of, files_needed, lowered_to_file_limit

RAISE = """
import json, resource, sys
from botpool.api.file_limit import raise_file_limit
raise_file_limit(int(sys.argv[1]))
print(json.dumps(resource.getrlimit(resource.RLIMIT_NOFILE)))
"""


def limits_after(soft: int, hard: int, *, needed: int) -> list[int]:
    """Raise the limit in a process that starts with these limits."""
    command = [sys.executable, "-c", RAISE, str(needed)]
    prefix = ["prlimit", f"--nofile={soft}:{hard}"]
    done = subprocess.run([*prefix, *command], capture_output=True, check=True, text=True)
    limits: list[int] = json.loads(done.stdout)
    return limits


@pytest.mark.parametrize(
    ("soft", "hard", "needed", "expected"),
    [(256, 4096, 1000, 1000), (256, 512, 1000, 512), (1000, 4096, 500, 1000), (64, 64, 500, 64)],
    ids=["enough", "up to the hard limit", "high already", "no room"],
)
def test_limit_is_raised_as_far_as_necessary_and_possible(
    soft: int, hard: int, needed: int, expected: int
) -> None:
    assert limits_after(soft, hard, needed=needed) == [expected, hard]


@pytest.mark.parametrize("files", [1024, 2048, 4096, 6143])
def test_connections_fit_into_the_files_that_are_allowed(files: int) -> None:
    lowered = lowered_to_file_limit(ConnectionLimits(), files)
    assert files_needed(lowered.connections) <= files
    assert files_needed(lowered.connections + 4) > files
    assert 0 < lowered.for_agents < lowered.connections


def test_enough_files_change_nothing() -> None:
    limits = ConnectionLimits()
    assert lowered_to_file_limit(limits, files_needed(limits.connections)) is limits


def test_backlog_is_bounded() -> None:
    assert [backlog_of(each) for each in (64, 4096, 100_000)] == [16, 1024, 1024]

"""Runs SPIN, the model checker, on the models in `spec/`."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.components import missing

MODEL = Path(__file__).parents[2] / "spec" / "handover.pml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What an exhaustive search found."""

    complete: bool
    states: int
    violated: str | None
    """The assertion of the counterexample; None if there is none."""
    steps: list[str]
    """The counterexample, step by step."""


def check_model(
    directory: Path,
    *,
    faults: int,
    standbys: int,
    broken: str | None = None,
    find_cycles: bool = False,
) -> Verdict:
    """Check the hand-over model; with a broken guard, find the shortest counterexample.

    `find_cycles`: search for an execution that does not end. The model labels no step as progress,
    so every cycle is an error.
    """
    if not shutil.which("spin"):
        missing("spin", "install the package spin")
    if not shutil.which("gcc"):
        missing("gcc", "install the package gcc")
    shutil.copy(MODEL, directory)
    macros = [f"-DFAULTS={faults}", f"-DSTANDBYS={standbys}", *([f"-D{broken}"] if broken else [])]
    run(directory, "spin", "-a", *macros, MODEL.name)
    # Breadth-first search finds the shortest counterexample, depth-first search needs less memory.
    search = ["-O0", "-DBFS"] if broken else ["-O2", "-DCOLLAPSE"]
    kind = "-DNP" if find_cycles else "-DSAFETY"
    run(directory, "gcc", "-w", kind, *search, "-o", "pan", "pan.c")
    cycles = ["-l"] if find_cycles else []
    output = run(directory, "./pan", *cycles, "-m200000", "-w22")
    trail = directory / f"{MODEL.name}.trail"
    steps = run(directory, "spin", "-t", *macros, MODEL.name) if trail.exists() else ""
    violation = re.search(r"pan:\d+: (?:assertion violated )?(.*) \(at depth", output)
    return Verdict(
        complete="Search not completed" not in output
        and "max search depth too small" not in output,
        states=int(re.search(r"(\d+) states, stored", output)[1]),  # type: ignore[index]
        violated=violation[1] if violation else None,
        # Steps are indented by process with blanks, values of variables with tabs.
        steps=[line.strip() for line in steps.splitlines() if re.match(r" +[a-z]", line)],
    )


def run(directory: Path, *command: str) -> str:
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True).stdout

"""The wrapper's own tests, and Go's checks of its source."""

import subprocess

from tests.support.agent_programs import ROOT, wrapper_program

SOURCE = ROOT / "packages" / "agent-go"


def run(*command: str) -> str:
    ran = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_parts_of_the_wrapper() -> None:
    wrapper_program()
    run("go", "test", "-tags", "nethttpomithttp2", "./...")


def test_source_is_formatted_and_uses_the_standard_library_only() -> None:
    wrapper_program()
    assert run("gofmt", "-l", ".") == ""
    assert run("go", "list", "-m", "all").split() == ["botpool-agent"]

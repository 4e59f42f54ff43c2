"""`make release`: two builds of one commit give the same bytes."""

import filecmp
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.components import missing

ROOT = Path(__file__).parents[2]


def release(folder: Path) -> list[str]:
    """Build the files of a release; return their names."""
    built = subprocess.run(
        [sys.executable, ROOT / "scripts" / "release", folder], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_two_builds_of_a_release_give_the_same_bytes(tmp_path: Path) -> None:
    for program in ("git", "go", "npm", "make"):
        if shutil.which(program) is None:
            missing(program, f"install the package {program}")
    if not (ROOT / ".git").exists():
        missing("the history", "a release is built from a commit of a clone")
    subprocess.run(["make", ".venv/.installed-sbom"], cwd=ROOT, check=True, capture_output=True)
    names = release(tmp_path / "first")
    assert len(names) == 8
    assert names == release(tmp_path / "second")
    same, different, unread = filecmp.cmpfiles(
        tmp_path / "first", tmp_path / "second", names, shallow=False
    )
    assert (sorted(same), different, unread) == (names, [], [])
    for line in (tmp_path / "first" / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((tmp_path / "first" / name).read_bytes()).hexdigest() == digest

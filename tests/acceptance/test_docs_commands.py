"""Every console block of the documentation runs as it stands, or says why no test runs it."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.docs_pages import NOT_RUN, ROOT, blocks, pages
from tests.support.docs_terminal import run_page
from tests.support.wheel import installed_wheel

RUNNABLE = [
    str(page.relative_to(ROOT))
    for page in pages()
    if any(block.language == "console" and not block.not_run for block in blocks(page))
]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an installed wheel, which the workers of a run share."""
    folder = tmp_path_factory.getbasetemp()
    return installed_wheel(
        (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "docs-wheel"
    )


@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", RUNNABLE)
def test_commands_of_the_page_work(page: str, programs: Path) -> None:
    run = [block for block in blocks(ROOT / page) if not block.not_run]
    # Not below the directory of pytest: each start of pytest closes that directory to other users,
    # such as the one of the embedded PostgreSQL.
    with tempfile.TemporaryDirectory(prefix="botpool-docs-", ignore_cleanup_errors=True) as folder:
        run_page(run, programs, Path(folder), timeout_s=360)


def test_most_pages_with_commands_are_run() -> None:
    assert len(RUNNABLE) >= 12


def test_every_block_that_is_not_run_names_a_known_reason() -> None:
    skipped = [block for page in pages() for block in blocks(page) if block.not_run]
    assert [f"{each.page}:{each.line}" for each in skipped if each.not_run not in NOT_RUN] == []
    assert {each.not_run for each in skipped} == NOT_RUN, "a reason that no page needs"


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in pages()])
def test_commands_that_are_not_run_are_shell(page: str) -> None:
    for block in blocks(ROOT / page):
        if block.not_run:
            text = "\n".join(command.text for command in block.commands())
            checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
            assert checked.returncode == 0, f"{block.page}:{block.line}: {checked.stderr}"

"""Users of local bots: a bot reads neither Botpool's secrets nor the files of another bot."""

import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from botpool.backends.process import BotUsers, ProcessBackend, bot_users
from botpool.domain.errors import SettingError
from botpool.domain.ids import AssignmentId, ContainerId
from tests.backends.conformance import BackendConformance
from tests.backends.harness import SPEC, TIMEOUT_S, eventually, start_request
from tests.backends.process_harness import HERE, ProcessHarness
from tests.support.components import missing
from tests.support.fences import NO_ASSIGNMENT

PYTHON = "/usr/bin/python3"
FIRST, SECOND = AssignmentId(11), AssignmentId(12)
OURS = "9c41e07d2ab85f36c1e0d4972f6ba853"


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder below which other users can read; pytest's own folders are private."""
    if os.geteuid() != 0:
        missing("root", "run the tests as root to check the users of local bots")
    if not Path(PYTHON).exists():
        missing(PYTHON, "install python3: other users may not read the interpreter of the tests")
    folder = Path(tempfile.mkdtemp(prefix="botpool-users-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


class SeparateUsersHarness(ProcessHarness):
    def __init__(self, folder: Path) -> None:
        (folder / "data").mkdir(mode=0o700)
        super().__init__(folder / "data")
        self._reports.chmod(0o1777)
        for program in ("bot_program.py", "snooping_program.py"):
            shutil.copy(HERE / program, folder)
            (folder / program).chmod(0o644)
        self.folder = folder
        self.command = (PYTHON, "-I", "-S", str(folder / "bot_program.py"))
        self.users = bot_users(
            user=None, command=self.command, folder=self.root, installation_id="one"
        )


@pytest.fixture
async def separate_users_harness(public_folder: Path) -> AsyncIterator[SeparateUsersHarness]:
    harness = SeparateUsersHarness(public_folder)
    yield harness
    await harness.clear()


class TestProcessBackendWithSeparateUsers(BackendConformance):
    """Starts, stops, kills, logs and exits work as with Botpool's own user."""

    @pytest.fixture
    def harness(self, separate_users_harness: SeparateUsersHarness) -> ProcessHarness:
        assert separate_users_harness.users.are_separate
        return separate_users_harness


async def snoop(
    harness: SeparateUsersHarness, number: AssignmentId, *paths: Path
) -> tuple[ContainerId, dict[str, Any]]:
    """Start a program that tries to read the paths, and return its container and its report."""
    command = (PYTHON, "-I", "-S", str(harness.folder / "snooping_program.py"))
    backend: ProcessBackend = await harness.open_backend(command=command)
    spec = replace(SPEC, name=f"pool-teams-{number:03}")
    container_id = await backend.ensure(spec, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    request = start_request(harness, container_id, number)
    environment = {"SNOOP": json.dumps([str(path) for path in paths])}
    await backend.start(replace(request, environment=environment), timeout_s=TIMEOUT_S)
    output = harness.directory(container_id) / f"output.{number}.log"
    await eventually(lambda: output.exists() and output.read_text().endswith("\n"))
    return container_id, json.loads(output.read_text())


async def test_bot_reads_neither_secrets_nor_other_bots(
    separate_users_harness: SeparateUsersHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = separate_users_harness
    data_dir = harness.root.parent
    secrets = [data_dir / "key", data_dir / "installation.json"]
    for secret in secrets:
        secret.write_text(OURS)
        secret.chmod(0o600)
    first, one = await snoop(harness, FIRST)
    other = harness.directory(first)
    record = json.loads((other / "run.json").read_text())
    hidden = [
        *secrets,
        data_dir,
        harness.root,
        other,
        other / "work",
        other / "work" / "own",
        other / "container.json",
        other / f"output.{FIRST}.log",
        Path(f"/proc/{os.getpid()}/environ"),
        Path(f"/proc/{record['pid']}/environ"),
        Path(f"/proc/{record['program']}/environ"),
    ]
    second, two = await snoop(harness, SECOND, *hidden)
    assert two["paths"] == {str(path): "PermissionError" for path in hidden}
    for number, report in ((FIRST, one), (SECOND, two)):
        account = harness.users.of(number)
        assert account is not None
        assert report["uid"] == [account.uid] * 3
        assert report["gid"] == [account.gid] * 3
        assert report["groups"] == []
        assert report["no_new_privileges"] == "1"
    assert two["home"] == two["cwd"] == str(harness.directory(second) / "work")
    assert one["uid"] != two["uid"]


async def test_next_bot_of_a_slot_reads_nothing_of_the_former(
    separate_users_harness: SeparateUsersHarness,
) -> None:
    harness = separate_users_harness
    container_id, _ = await snoop(harness, FIRST)
    backend = await harness.open_backend(
        command=(PYTHON, "-I", "-S", str(harness.folder / "snooping_program.py"))
    )
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    old_output = harness.directory(container_id) / f"output.{FIRST}.log"
    environment = {"SNOOP": json.dumps([str(old_output)])}
    request = replace(start_request(harness, container_id, SECOND), environment=environment)
    await backend.start(request, timeout_s=TIMEOUT_S)
    output = harness.directory(container_id) / f"output.{SECOND}.log"
    await eventually(lambda: output.exists() and output.read_text().endswith("\n"))
    assert json.loads(output.read_text())["paths"] == {str(old_output): "PermissionError"}


def users_for(folder: Path, *command: str, user: str | None = None) -> BotUsers:
    containers = folder / "data" / "containers"
    return bot_users(user=user, command=command, folder=containers, installation_id="one")


def test_each_assignment_and_installation_has_its_own_user(public_folder: Path) -> None:
    users = users_for(public_folder, "/bin/sleep", "1")
    assert users.problem == ""
    accounts = {users.of(AssignmentId(number)) for number in range(1, 1_000)}
    assert len(accounts) == 999
    other = bot_users(
        user=None, command=["/bin/sleep"], folder=public_folder / "a" / "b", installation_id="two"
    )
    assert accounts.isdisjoint({other.of(AssignmentId(number)) for number in range(1, 1_000)})


def test_configured_user_runs_all_bots(public_folder: Path) -> None:
    users = users_for(public_folder, "/bin/sleep", "1", user="daemon")
    accounts = {users.of(number) for number in (FIRST, SECOND)}
    assert len(accounts) == 1
    assert accounts.pop() == users_for(public_folder, "/bin/sleep", "1", user="1").account


@pytest.mark.parametrize("what", ["program", "script", "data_dir"])
def test_unreadable_program_is_run_as_our_user_unless_a_user_is_set(
    public_folder: Path, what: str
) -> None:
    private = public_folder / "private"
    private.mkdir(mode=0o700)
    (private / "script").write_text("#!/bin/sh\n")
    (private / "script").chmod(0o755)
    command, folder = {
        "program": ([str(private / "script")], public_folder),
        "script": (["/bin/sh", str(private / "script")], public_folder),
        "data_dir": (["/bin/sleep"], private),
    }[what]
    users = users_for(folder, *command)
    assert not users.are_separate
    assert users.problem.startswith("bots run as root, because other users have no access to ")
    assert str(private) in users.problem
    with pytest.raises(SettingError, match=r"^backends\.process\.user: the user daemon has no"):
        users_for(folder, *command, user="daemon")


@pytest.mark.parametrize(
    ("user", "problem"),
    [("unknown-user", "there is no user"), ("4294967295999", "there is no"), ("root", "is root")],
)
def test_unusable_user_is_refused(public_folder: Path, user: str, problem: str) -> None:
    with pytest.raises(SettingError, match=rf"^backends\.process\.user: .*{problem}"):
        users_for(public_folder, "/bin/sleep", user=user)


def test_without_root_bots_share_our_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    users = users_for(tmp_path, "/bin/sleep")
    assert users.problem == "bots run as Botpool's own user (12345)"
    assert users.of(FIRST) is None
    with pytest.raises(SettingError, match=r"^backends\.process\.user: needs root"):
        users_for(tmp_path, "/bin/sleep", user="daemon")

"""The data directory is private, locked by one process, and keeps its identity."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import Popen

import pytest

from botpool.domain.errors import AlreadyRunning, SettingError
from botpool.domain.installation_secret import weakness_of
from botpool.store.data_dir import DataDir, write_private

HOLD = """
import sys, time
from pathlib import Path
from botpool.store.data_dir import DataDir
with DataDir.open(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    return DataDir.open(tmp_path / "data")


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def hold_in_another_process(data_dir: DataDir) -> Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    holder = Popen(
        [sys.executable, "-c", HOLD, str(data_dir.root)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_new_directory_is_private(tmp_path: Path) -> None:
    data_dir = DataDir.open(tmp_path / "above" / "data")

    assert mode_of(data_dir.root) == 0o700


def test_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    assert mode_of(DataDir.open(tmp_path).root) == 0o755


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_file_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SettingError, match=r"^data_dir: .* a file$"):
        DataDir.open(tmp_path / path)


def test_unwritable_path_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^data_dir: /proc/botpool cannot be used: "):
        DataDir.open(Path("/proc/botpool"))


def test_second_process_learns_the_holder(data_dir: DataDir) -> None:
    with hold_in_another_process(data_dir) as holder:
        try:
            with pytest.raises(AlreadyRunning) as caught, data_dir.locked():
                pass
        finally:
            holder.kill()

    assert caught.value.pid == holder.pid
    assert caught.value.data_dir == str(data_dir.root)


def test_lock_of_killed_process_is_released(data_dir: DataDir) -> None:
    with hold_in_another_process(data_dir) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()

    with data_dir.locked():
        assert data_dir.lock_file.read_text() == f"{os.getpid()}\n"


def test_lock_is_released_after_use(data_dir: DataDir) -> None:
    with pytest.raises(RuntimeError), data_dir.locked():
        raise RuntimeError

    with data_dir.locked():
        pass


def test_identity_is_created_once_and_private(data_dir: DataDir) -> None:
    first = data_dir.installation()

    assert data_dir.installation() == first
    (secret,) = first.secrets
    assert weakness_of(secret) is None
    assert secret not in repr(first)
    assert mode_of(data_dir.installation_file) == 0o600


def test_two_directories_have_two_identities(tmp_path: Path) -> None:
    one, other = (DataDir.open(tmp_path / name).installation() for name in ("a", "b"))

    assert one.id != other.id
    assert one.secrets != other.secrets


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": "x"}', '{"id": "x", "secrets": []}'])
def test_damaged_identity_is_never_replaced(data_dir: DataDir, text: str) -> None:
    data_dir.installation_file.write_text(text)

    with pytest.raises(SettingError, match=r"installation\.json is damaged"):
        data_dir.installation()
    assert data_dir.installation_file.read_text() == text


def test_private_file_is_written_atomically(data_dir: DataDir) -> None:
    data_dir.key.write_text("old")
    data_dir.key.chmod(0o644)

    write_private(data_dir.key, "new")

    assert data_dir.key.read_text() == "new"
    assert mode_of(data_dir.key) == 0o600
    assert [path.name for path in data_dir.root.iterdir()] == ["key"]

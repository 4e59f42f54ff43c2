"""`botpool secret rotate`, and the durations of `botpool key`."""

from pathlib import Path

import pytest

from botpool.cli import main
from botpool.domain.installation_secret import weakness_of
from botpool.store.data_dir import DataDir

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DATABASE_URL", "BOTPOOL_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_embedded_secret_is_rotated_in_the_data_directory(tmp_path: Path) -> None:
    directory = DataDir.open(tmp_path / "data")
    first = directory.installation()

    assert main(["secret", "rotate", "--data-dir", str(directory.root)]) == 0
    rotated = directory.installation()
    assert rotated.id == first.id
    assert rotated.secrets[1:] == first.secrets
    assert weakness_of(rotated.secrets[0]) is None

    assert main(["secret", "rotate", "--finish", "--data-dir", str(directory.root)]) == 0
    assert directory.installation().secrets == rotated.secrets[:1]


def test_secret_of_the_settings_is_not_changed_but_a_new_one_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    current = "9c41e07d2ab85f36c1e0d4972f6ba853"
    monkeypatch.setenv("BOTPOOL_INSTALLATION__SECRET", current)

    assert main(["secret", "rotate"]) == 0
    said = capsys.readouterr()
    assert weakness_of(said.out.strip()) is None
    assert "installation.secrets" in said.err
    assert current not in said.out + said.err
    assert not (tmp_path / ".botpool").exists()

    assert main(["secret", "rotate", "--finish"]) == 2


@pytest.mark.parametrize(
    ("lifetime", "problem"),
    [("90", "is not a duration"), ("5x", "is not a duration"), ("0d", "invalid at once"),
     ("600w", "longer than ten years"), ("-5d", "is not a duration")],
)  # fmt: skip
def test_invalid_lifetime_is_a_usage_error(lifetime: str, problem: str, capsys: Captured) -> None:
    assert main(["key", "create", "--name", "ci", f"--expires={lifetime}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line

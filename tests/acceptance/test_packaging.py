"""What one installs: the wheel, the images, the compose file, the systemd unit."""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_string
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.components import missing

ROOT = Path(__file__).parents[2]
DOCKERFILES = ("Dockerfile", "deploy/bot/Dockerfile", "examples/browser-bot/Dockerfile")
SECRETS = {"POSTGRES_PASSWORD": "password", "BOTPOOL_INSTALLATION__SECRET": "secret"}
READY_S = 90.0


def run(*command: str, **options: object) -> str:
    """What it says; a command that fails, fails the test with its words."""
    ran = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert ran.returncode == 0, f"{command[0]}: {ran.stdout}{ran.stderr}"
    return str(ran.stdout)


@pytest.mark.parametrize("path", DOCKERFILES)
def test_the_dockerfiles_are_without_blemish(path: str) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    assert run(str(hadolint), str(ROOT / path)) == ""


def test_the_images_hold_what_they_are_said_to_hold() -> None:
    """No daemon here can pull their base: at least everything that they copy is there."""
    for path in DOCKERFILES:
        text = (ROOT / path).read_text()
        assert "\nUSER 10001\n" in text
        for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
            for source in sources.split():
                assert (ROOT / source).exists(), f"{path} copies {source}"


def test_the_compose_file_is_understood_and_asks_for_its_secrets() -> None:
    if (compose := shutil.which("docker-compose")) is None:
        missing("docker-compose", "install the package docker-compose")
    command = (compose, "-f", str(ROOT / "compose.yaml"), "config")
    shown = run(*command, env={**os.environ, **SECRETS})
    for part in ("service_completed_successfully", "postgresql://botpool:password@postgres"):
        assert part in shown
    refused = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.defpath})
    assert refused.returncode != 0
    assert "POSTGRES_PASSWORD" in refused.stderr


def test_the_systemd_unit_is_understood(tmp_path: Path) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        missing("systemd", "install the package systemd")
    unit = (ROOT / "deploy" / "systemd" / "botpool.service").read_text()
    # It is checked whether programs, users and folders exist: those of an installed Botpool do not.
    unit = unit.replace("/opt/botpool/bin/botpool", "/bin/true")
    (tmp_path / "botpool.service").write_text(unit)
    ran = subprocess.run(
        [analyze, "verify", "--man=no", str(tmp_path / "botpool.service")],
        capture_output=True,
        text=True,
    )
    complaints = [line for line in ran.stderr.splitlines() if "botpool.service" in line]
    assert complaints == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: building leaves things behind."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    build = ("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", "dist", ".")
    run(sys.executable, *build, cwd=folder)
    (built,) = (folder / "dist").glob("*.whl")
    return built


def test_the_wheel_names_all_that_it_needs(wheel: Path) -> None:
    """Every package that the code imports is one that the wheel asks for."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        asked = message_from_string(archive.read(metadata).decode()).get_all("Requires-Dist") or []
        sources = [name for name in archive.namelist() if name.endswith(".py")]
        imported = {name for each in sources for name in _imports(archive.read(each).decode())}
    named = {_plain(re.split(r"[^\w.-]", each)[0]) for each in asked if "extra ==" not in each}
    known = packages_distributions()
    for name in sorted(imported - set(sys.stdlib_module_names) - {"botpool"}):
        distributions = {_plain(each) for each in known[name]}
        assert distributions & (named | _COME_WITH_THEM), f"{name} is not asked for"


_COME_WITH_THEM = frozenset({"aiohttp", "starlette", "anyio"})
"""Parts of what is asked for that are part of its public face: aiodocker's, FastAPI's."""


def _imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_wheel_runs_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """With the packages of this run's environment; `make test-long` installs those too."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    install = ("install", "--quiet", "--no-deps", "--no-compile", str(wheel))
    run(sys.executable, "-m", "pip", "--python", str(python), *install)
    (packages,) = home.glob("lib/python*/site-packages")
    # A path in a .pth file brings packages, but not the checkout, which is in a .pth file itself.
    (packages / "others.pth").write_text(f"{_packages_of_this_run()}\n")
    assert_up_serves(home / "bin" / "botpool", tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_wheel_installs_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True, symlinks=True)
    run(str(home / "bin" / "pip"), "install", "--quiet", str(wheel))
    assert_up_serves(home / "bin" / "botpool", tmp_path)


def _packages_of_this_run() -> Path:
    import psycopg

    return Path(psycopg.__file__).parents[1]


def assert_up_serves(command: Path, folder: Path) -> None:
    """`botpool up` in an empty folder: it prints where it is, and runs a bot to its end there."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    environment = {"PATH": os.defpath, "HOME": str(elsewhere)}
    said = elsewhere / "said"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [str(command), "up", "--port", "0"],
            stdout=output,
            stderr=output,
            cwd=elsewhere,
            env=environment,
        )
    try:
        url, key = _address(process, said)
        where = run(
            str(command.with_name("python")),
            "-c",
            "import botpool; print(botpool.__file__)",
            cwd=elsewhere,
            env=environment,
        )
        assert where.startswith(str(folder))
        assert _ends(url, key, _post(url, key)) == "DONE"
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(READY_S) == 0, said.read_text()


def _address(process: subprocess.Popen[bytes], said: Path) -> tuple[str, str]:
    give_up_at = time.monotonic() + READY_S
    while time.monotonic() < give_up_at:
        if found := re.search(r"^\s*(http://\S+)/#key=(\S+)\s*$", said.read_text(), re.MULTILINE):
            return found[1], found[2]
        assert process.poll() is None, said.read_text()
        time.sleep(0.1)
    raise AssertionError(said.read_text())


def _post(url: str, key: str) -> int:
    stays = {"joinSeconds": 0, "staySeconds": 0}
    body = {"meetingUrl": "https://meet.google.com/abc-defg-hij", "botData": stays}
    answer = _ask(url, key, "/v1/bots", json.dumps(body).encode())
    return int(answer["bot"]["id"])


def _ends(url: str, key: str, bot_id: int) -> str:
    give_up_at = time.monotonic() + READY_S
    while time.monotonic() < give_up_at:
        bot = _ask(url, key, f"/v1/bots/{bot_id}")["bot"]
        if bot["endedAt"]:
            return str(bot["status"])
        time.sleep(0.1)
    return "not ended"


def _ask(url: str, key: str, path: str, body: bytes | None = None) -> dict[str, dict[str, str]]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url + path, body, headers), timeout=30) as answer:
        answered: dict[str, dict[str, str]] = json.load(answer)
    return answered

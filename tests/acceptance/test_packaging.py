"""The wheel, the images, the compose file and the systemd unit."""

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
import yaml

from botpool.api.connections import ConnectionLimits
from botpool.api.file_limit import files_needed
from tests.support.agent_programs import built_npm_package, wrapper_program
from tests.support.components import missing
from tests.support.wheel import build_wheel, copy_sources, install_wheel

ROOT = Path(__file__).parents[2]
DOCKERFILES = (
    "Dockerfile",
    "deploy/bot/Dockerfile",
    "examples/browser-bot/Dockerfile",
    "examples/browser-bot-ts/Dockerfile",
)
PINNED = (
    "requirements/run.txt",
    "requirements/dev.txt",
    "requirements/sbom.txt",
    "examples/browser-bot/requirements.txt",
)
SECRETS = {
    "POSTGRES_PASSWORD": "password",
    "BOTPOOL_INSTALLATION__SECRET": "9c41e07d2ab85f36c1e0d4972f6ba853",
}
READY_S = 150.0


def run(*command: str, **options: object) -> str:
    """Run a command and return its output; a failure fails the test with the output."""
    ran = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert ran.returncode == 0, f"{command[0]}: {ran.stdout}{ran.stderr}"
    return str(ran.stdout)


@pytest.mark.parametrize("path", DOCKERFILES)
def test_hadolint_accepts_the_dockerfiles(path: str) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    assert run(str(hadolint), str(ROOT / path)) == ""


def test_dockerfiles_copy_existing_files_and_drop_root() -> None:
    """Check the sources of COPY, because tests cannot pull the base images."""
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    sent = [rule[1:] for rule in rules if rule.startswith("!")]
    for path in DOCKERFILES:
        text = (ROOT / path).read_text()
        assert "\nUSER 10001\n" in text
        for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
            for source in sources.split():
                assert (ROOT / source).exists(), f"{path} copies {source}"
                assert any(source == each or source.startswith(f"{each}/") for each in sent), (
                    f"{path} copies {source}, which .dockerignore leaves out"
                )


def test_base_images_are_pinned_by_digest() -> None:
    used = [
        image
        for path in DOCKERFILES
        for image in re.findall(r"^FROM (\S+)", (ROOT / path).read_text(), re.MULTILINE)
    ]
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    used += [each["image"] for each in compose["services"].values() if "build" not in each]
    assert len(used) >= 5
    unpinned = [
        image for image in used if not re.fullmatch(r"[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}", image)
    ]
    assert not unpinned


@pytest.mark.parametrize("path", DOCKERFILES)
def test_dockerfiles_install_packages_with_hashes_only(path: str) -> None:
    text = (ROOT / path).read_text().replace("\\\n", " ")
    for install in re.findall(r"pip3?(?: --python \S+)? install [^&\n]+", text):
        files = re.findall(r"-r (?:/opt/)?(\S+)", install)
        assert files or install.split()[-1] == ".", f"{install} names packages"
        assert not files or "--require-hashes" in install


@pytest.mark.parametrize("path", PINNED)
def test_every_pinned_package_has_a_hash(path: str) -> None:
    entries = re.split(r"\n(?=\w)", (ROOT / path).read_text().replace("\\\n", " "))
    packages = [entry for entry in entries if "==" in entry]
    assert packages
    assert not [entry for entry in packages if "--hash=sha256:" not in entry]


@pytest.mark.long
def test_sbom_lists_every_pinned_package() -> None:
    if (make := shutil.which("make")) is None:
        missing("make", "install the package make")
    run(make, "--no-print-directory", "sbom", cwd=ROOT)
    document = json.loads((ROOT / "dist" / "botpool.cdx.json").read_text())
    assert document["bomFormat"] == "CycloneDX"
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "requirements/run.txt").read_text(), re.MULTILINE)
    assert sorted(each["name"] for each in document["components"]) == sorted(pinned)


def test_compose_file_is_valid_and_requires_its_secrets() -> None:
    if (compose := shutil.which("docker-compose")) is None:
        missing("docker-compose", "install the package docker-compose")
    command = (compose, "-f", str(ROOT / "compose.yaml"), "config")
    shown = run(*command, env={**os.environ, **SECRETS})
    for part in ("service_completed_successfully", "postgresql://botpool:password@postgres"):
        assert part in shown
    refused = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.defpath})
    assert refused.returncode != 0
    assert "POSTGRES_PASSWORD" in refused.stderr


def test_bots_of_the_compose_file_cannot_reach_the_database() -> None:
    """Check that the network of the bots has Botpool in it, but not PostgreSQL."""
    if (compose := shutil.which("docker-compose")) is None:
        missing("docker-compose", "install the package docker-compose")
    command = (compose, "-f", str(ROOT / "compose.yaml"), "config")
    shown = yaml.safe_load(run(*command, env={**os.environ, **SECRETS}))
    bots = shown["services"]["botpool"]["environment"]["BOTPOOL_BACKENDS__DOCKER__NETWORK"]
    (network,) = [name for name, each in shown["networks"].items() if each.get("name") == bots]
    members = {
        name
        for name, service in shown["services"].items()
        if network in service.get("networks", {"default": None})
    }
    assert members == {"botpool"}
    assert not set(shown["services"]["postgres"]["networks"]) & {network, "default"}


def test_systemd_unit_is_valid(tmp_path: Path) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        missing("systemd", "install the package systemd")
    unit = (ROOT / "deploy" / "systemd" / "botpool.service").read_text()
    # systemd-analyze checks that the program exists, and Botpool is not installed here.
    unit = unit.replace("/opt/botpool/bin/botpool", "/bin/true")
    (tmp_path / "botpool.service").write_text(unit)
    ran = subprocess.run(
        [analyze, "verify", "--man=no", str(tmp_path / "botpool.service")],
        capture_output=True,
        text=True,
    )
    complaints = [line for line in ran.stderr.splitlines() if "botpool.service" in line]
    assert complaints == []


def test_systemd_unit_allows_files_for_all_connections() -> None:
    unit = (ROOT / "deploy" / "systemd" / "botpool.service").read_text()
    (files,) = re.findall(r"^LimitNOFILE=(\d+)$", unit, re.MULTILINE)
    assert int(files) >= files_needed(ConnectionLimits().connections)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel without the wrapper, as a machine without Go does."""
    return build_wheel(copy_sources(tmp_path_factory.mktemp("wheel")))


def test_wheel_without_the_wrapper_is_for_every_machine(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "botpool-agent" in name]


def test_wheel_carries_the_wrapper_and_installs_its_command(tmp_path: Path) -> None:
    folder = copy_sources(tmp_path)
    (folder / "packages" / "agent-go").mkdir(parents=True)
    binary = folder / "packages" / "agent-go" / "botpool-agent"
    shutil.copy(wrapper_program(), binary)
    wheel = build_wheel(folder)
    assert re.search(r"-py3-none-\w*linux\w*\.whl$", wheel.name)
    home = tmp_path / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    install = ("install", "--quiet", "--no-deps", "--no-compile", str(wheel))
    run(sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), *install)
    installed = home / "bin" / "botpool-agent"
    assert installed.read_bytes() == binary.read_bytes()
    assert run(str(installed), "version").startswith("botpool-agent 0.")

    run(
        sys.executable, "-c", "import setuptools.build_meta as b; b.build_sdist('dist')", cwd=folder
    )
    (sources,) = (folder / "dist").glob("*.tar.gz")
    assert "agent-go" not in run("tar", "-tzf", str(sources))


def test_npm_package_holds_the_built_agent_and_its_types(tmp_path: Path) -> None:
    package = built_npm_package()
    if (npm := shutil.which("npm")) is None:
        missing("npm", "install the package npm")
    packed = run(npm, "pack", "--ignore-scripts", "--json", str(package), cwd=tmp_path)
    (described,) = _npm_packages(json.loads(packed))
    names = {file["path"] for file in described["files"]}
    assert {"package.json", "dist/index.js", "dist/index.d.ts"} <= names
    assert {name for name in names if not name.startswith("dist/")} == {"package.json", "README.md"}
    declared = json.loads((package / "package.json").read_text())
    assert "dependencies" not in declared
    assert declared["version"] == _version()


def _npm_packages(described: object) -> list[dict[str, list[dict[str, str]]]]:
    """Return npm's descriptions; newer versions of npm name each package."""
    return list(described.values()) if isinstance(described, dict) else described  # type: ignore[return-value]


def _version() -> str:
    return re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]


def test_wheel_declares_every_imported_package(wheel: Path) -> None:
    """Check that the wheel requires every package that the code imports."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        required = (
            message_from_string(archive.read(metadata).decode()).get_all("Requires-Dist") or []
        )
        sources = [name for name in archive.namelist() if name.endswith(".py")]
        imported = {name for each in sources for name in _imports(archive.read(each).decode())}
    named = {
        _plain(re.split(r"[^\w.-]", each)[0])
        for each in required
        if not re.search(r"extra == .(dev|bench)", each)
    }
    known = packages_distributions()
    for name in sorted(imported - set(sys.stdlib_module_names) - {"botpool"}):
        distributions = {_plain(each) for each in known[name]}
        assert distributions & (named | _TRANSITIVE), f"{name} is not required"


_TRANSITIVE = frozenset({"starlette", "anyio", "yarl"})
"""Packages that belong to the public interface of required ones: FastAPI and aiohttp."""


def _imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.timeout(600)
def test_wheel_runs_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Use the packages of this environment; `make test-long` installs them too."""
    assert_up_serves(install_wheel(wheel, tmp_path / "venv") / "botpool", tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_wheel_installs_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True, symlinks=True)
    run(str(home / "bin" / "pip"), "install", "--quiet", str(wheel))
    assert_up_serves(home / "bin" / "botpool", tmp_path)


def assert_up_serves(command: Path, folder: Path) -> None:
    """Run `botpool up` in an empty directory and run a bot to its end."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    environment = {"PATH": os.defpath, "HOME": str(elsewhere)}
    log = elsewhere / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(command), "up", "--port", "0"],
            stdout=output,
            stderr=output,
            cwd=elsewhere,
            env=environment,
        )
    try:
        url = _address(process, log)
        key = (elsewhere / ".botpool" / "key").read_text().strip()
        where = run(
            str(command.with_name("python")),
            "-c",
            "import botpool; print(botpool.__file__)",
            cwd=elsewhere,
            env=environment,
        )
        assert where.startswith(str(folder))
        assert _final_status(url, key, _post(url, key)) == "DONE"
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(READY_S) == 0, log.read_text()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    give_up_at = time.monotonic() + READY_S
    while time.monotonic() < give_up_at:
        if found := re.search(r"^(http://\S+)/$", log.read_text(), re.MULTILINE):
            return found[1]
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def _post(url: str, key: str) -> int:
    bot_data = {"joinSeconds": 0, "staySeconds": 0}
    body = {"meetingUrl": "https://meet.google.com/abc-defg-hij", "botData": bot_data}
    response = _call(url, key, "/v1/bots", json.dumps(body).encode())
    return int(response["bot"]["id"])


def _final_status(url: str, key: str, bot_id: int) -> str:
    give_up_at = time.monotonic() + READY_S
    while time.monotonic() < give_up_at:
        bot = _call(url, key, f"/v1/bots/{bot_id}")["bot"]
        if bot["endedAt"]:
            return str(bot["status"])
        time.sleep(0.1)
    return "not ended"


def _call(url: str, key: str, path: str, body: bytes | None = None) -> dict[str, dict[str, str]]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url + path, body, headers), timeout=60) as response:
        body_: dict[str, dict[str, str]] = json.load(response)
    return body_

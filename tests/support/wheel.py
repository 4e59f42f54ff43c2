"""The wheel of this checkout, and virtual environments with it."""

import fcntl
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_sources(folder: Path) -> Path:
    """Copy what a build reads, because a build leaves files behind."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "setup.py", "MANIFEST.in"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def build_wheel(folder: Path) -> Path:
    """Build the wheel of the sources in this folder."""
    _run(
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        "dist",
        ".",
        cwd=folder,
    )
    (built,) = (folder / "dist").glob("*.whl")
    return built


def install_wheel(wheel: Path, home: Path) -> Path:
    """Create a virtual environment with the wheel and the packages of this one.

    Return the directory of its programs.
    """
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    _run(
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        str(wheel),
    )
    (packages,) = home.glob("lib/python*/site-packages")
    # A path in a .pth file adds packages, but does not read further .pth files, such as that of
    # the checkout.
    (packages / "others.pth").write_text(f"{_packages_of_this_run()}\n")
    return home / "bin"


def installed_wheel(folder: Path) -> Path:
    """Build and install the wheel below this folder, once for all processes of a test run."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            sources = folder / "sources"
            sources.mkdir()
            install_wheel(build_wheel(copy_sources(sources)), folder / "venv")
            (folder / "installed").touch()
    return folder / "venv" / "bin"


def _packages_of_this_run() -> Path:
    import psycopg

    return Path(psycopg.__file__).parents[1]


def _run(*arguments: str, cwd: Path | None = None) -> None:
    ran = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd)
    assert ran.returncode == 0, ran.stdout + ran.stderr

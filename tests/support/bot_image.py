"""Builds an image from this machine's own Python, so that tests need no registry on the internet.

The image holds the interpreter, the libraries that it links, the modules that the given programs
import, and the programs. The result is an archive in the format of `docker save`.
"""

import contextlib
import functools
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import botpool

_IMPORTS = (
    "asyncio, contextlib, http.client, json, os, runpy, signal, sys, time, urllib.request, "
    "encodings.idna, encodings.ascii, botpool.agent, botpool.agent.demo"
)
PYTHON = "/bot/python"
_DEBIAN_PYTHON = Path("/usr/bin/python3")
_SOURCES = Path(botpool.__file__).parents[1]


def archive(
    names: Sequence[str], command: Sequence[str], files: Mapping[str, bytes], *, user: str = ""
) -> bytes:
    """Build an image with these names that runs `command` as `user` and holds `files`."""
    environment = [
        "PATH=/bot",
        f"PYTHONHOME={_home()}",
        f"PYTHONPATH={_SOURCES}",
        f"LD_LIBRARY_PATH={_home()}/lib",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONUNBUFFERED=1",
    ]
    layers = [_interpreter(), _packed(files, directories=["tmp"])]
    return image(names, {"Cmd": list(command), "Env": environment, "User": user}, layers)


def plain_archive(names: Sequence[str], command: Sequence[str], files: Mapping[str, Path]) -> bytes:
    """Build an image without Python that holds copies of `files`, with their modes."""
    config = {"Cmd": list(command), "Env": ["PATH=/bin:/usr/bin"]}
    return image(names, config, [copied_layer(list(files.items()))])


def image(names: Sequence[str], config: Mapping[str, Any], layers: list[bytes]) -> bytes:
    """Build an image of these layers; `config` is that of its containers."""
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"WorkingDir": "/meeting", **config},
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers],
        },
    }
    paths = [f"{number}.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": list(names), "Layers": paths}]
    parts = dict(zip(paths, layers, strict=True))
    parts["config.json"] = json.dumps(config).encode()
    parts["manifest.json"] = json.dumps(manifest).encode()
    return _packed(parts)


@functools.cache
def _executable() -> Path:
    """Return Debian's Python if it is new enough, because it is smaller than other builds."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        _output_of(_DEBIAN_PYTHON, f"import {_IMPORTS}")
        return _DEBIAN_PYTHON.resolve()
    return Path(sys.executable).resolve()


@functools.cache
def _home() -> str:
    return _output_of(_executable(), "import sys; print(sys.base_prefix)").strip()


def _output_of(interpreter: Path, program: str) -> str:
    return subprocess.run(
        [interpreter, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(_SOURCES)},
    ).stdout


@functools.cache
def _interpreter() -> bytes:
    """Build the layer that all images of a test run share."""
    interpreter = _executable()
    modules = _modules()
    paths = {*_linked(str(interpreter), modules), *modules}
    return copied_layer([(PYTHON, interpreter), *((path, Path(path)) for path in paths)])


def copied_layer(files: Sequence[tuple[str, Path]]) -> bytes:
    """Build a layer of these files: paths inside the image and here."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as layer:
        for inside, outside in files:
            member = tarfile.TarInfo(inside.lstrip("/"))
            found = outside.stat()
            # Python compares the modification time with the one in the compiled file.
            member.mtime, member.mode = int(found.st_mtime), found.st_mode & 0o777
            member.size = found.st_size
            with outside.open("rb") as content:
                layer.addfile(member, content)
    return packed.getvalue()


def _modules() -> Sequence[str]:
    """Return the files of all modules that the programs import."""
    show = (
        f"import {_IMPORTS}, sys\n"
        "for module in list(sys.modules.values()):\n"
        "    spec = getattr(module, '__spec__', None)\n"
        "    for path in (getattr(spec, 'origin', None), getattr(spec, 'cached', None)):\n"
        "        print(path)\n"
    )
    output = _output_of(_executable(), show)
    return [path for path in output.splitlines() if path.startswith("/") and Path(path).is_file()]


def _linked(interpreter: str, modules: Sequence[str]) -> Sequence[str]:
    """Return the shared libraries of the interpreter and of its extension modules."""
    extensions = [path for path in modules if path.endswith(".so")]
    output = subprocess.run(
        ["ldd", interpreter, *extensions], check=True, capture_output=True, text=True
    ).stdout
    return sorted(set(re.findall(r"(/\S+) \(0x", output)))


def linked_libraries(program: Path) -> Sequence[str]:
    """Return the shared libraries of a program."""
    return _linked(str(program), [])


def _packed(files: Mapping[str, bytes], directories: Sequence[str] = ()) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in directories:
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o1777
            archive.addfile(member)
        for name, content in files.items():
            member = tarfile.TarInfo(name.lstrip("/"))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()

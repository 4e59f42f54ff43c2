"""An image of this machine's own Python, so that tests need no registry on the net.

It holds the interpreter, the libraries that it is linked with, exactly the modules that the given
programs import, and the programs. It is an archive as `docker save` writes it.
"""

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import botpool

_IMPORTS = (
    "asyncio, contextlib, http.client, json, os, runpy, signal, sys, time, urllib.request, "
    "encodings.idna, encodings.ascii, botpool.agent, botpool.agent.demo"
)
PYTHON = "/bot/python"


def archive(names: Sequence[str], command: Sequence[str], programs: Mapping[str, Path]) -> bytes:
    """An image with these names, which runs `command`; `programs` are put under these paths."""
    interpreter = str(Path(sys.executable).resolve())
    files = {path: path for path in (*_linked(interpreter), *_modules())}
    files[PYTHON] = interpreter
    files |= {inside: str(outside) for inside, outside in programs.items()}
    layer = _packed(files, directories=("tmp",))
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Cmd": list(command),
            "Env": [
                "PATH=/bot",
                f"PYTHONHOME={sys.base_prefix}",
                f"PYTHONPATH={Path(botpool.__file__).parents[1]}",
                f"LD_LIBRARY_PATH={Path(sys.base_prefix) / 'lib'}",
                "PYTHONDONTWRITEBYTECODE=1",
                "PYTHONUNBUFFERED=1",
            ],
            "WorkingDir": "/meeting",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    content = json.dumps(config).encode()
    manifest = [{"Config": "config.json", "RepoTags": list(names), "Layers": ["layer.tar"]}]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as image:
        _add(image, "config.json", content)
        _add(image, "layer.tar", layer)
        _add(image, "manifest.json", json.dumps(manifest).encode())
    return packed.getvalue()


def _modules() -> Iterable[str]:
    """The files of all modules that the programs load, found by loading them."""
    show = (
        f"import {_IMPORTS}, sys\n"
        "for module in list(sys.modules.values()):\n"
        "    spec = getattr(module, '__spec__', None)\n"
        "    for path in (getattr(spec, 'origin', None), getattr(spec, 'cached', None)):\n"
        "        print(path)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", show], check=True, capture_output=True, text=True
    ).stdout
    return [path for path in said.splitlines() if path.startswith("/") and Path(path).is_file()]


def _linked(interpreter: str) -> Iterable[str]:
    """Shared libraries of the interpreter and of the extension modules that it loads."""
    extensions = [path for path in _modules() if path.endswith(".so")]
    said = subprocess.run(
        ["ldd", interpreter, *extensions], check=True, capture_output=True, text=True
    ).stdout
    return sorted(set(re.findall(r"(/\S+) \(0x", said)))


def _packed(files: Mapping[str, str], directories: Iterable[str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as layer:
        for name in directories:
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o1777
            layer.addfile(member)
        for inside, outside in sorted(files.items()):
            source = Path(outside)
            member = tarfile.TarInfo(inside.lstrip("/"))
            # The same time: Python compares it with that in the compiled file.
            member.mtime, member.mode = int(source.stat().st_mtime), source.stat().st_mode & 0o777
            member.size = source.stat().st_size
            with source.open("rb") as content:
                layer.addfile(member, content)
    return packed.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))

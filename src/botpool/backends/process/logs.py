"""Reads the output of a run from two files of limited size; the older half is in `.1`."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import BinaryIO

from botpool.backends.process import launcher
from botpool.backends.process.container_directory import ContainerDirectory
from botpool.domain.ids import AssignmentId

CHUNK = 65_536
POLL_S = 0.1


async def stream(
    directory: ContainerDirectory, assignment_id: AssignmentId, *, tail: int | None, follow: bool
) -> AsyncIterator[bytes]:
    """Yield the kept output, then new output until the run ends."""
    path = f"{directory.path}/{launcher.output_name(assignment_id)}"
    older, newer = _open(f"{path}.1"), None
    try:
        newer = _open(path)
        kept = _content(older) + _content(newer)
        if last_lines := _last_lines(kept, tail):
            yield last_lines
        while follow:
            # Test for the end before the last read, so that no output is missed.
            ended = not is_running(directory, assignment_id)
            for chunk in _chunks(newer):
                yield chunk
            current = _open(path)
            if current is not None and not _is_same(newer, current):
                newer, current = current, newer
            elif ended:
                follow = False
            else:
                await asyncio.sleep(POLL_S)
            _close(current)
    finally:
        _close(older)
        _close(newer)


def is_running(directory: ContainerDirectory, assignment_id: AssignmentId) -> bool:
    with suppress(FileNotFoundError):
        run = directory.last_run()
        return run is not None and run.assignment_id == assignment_id and directory.is_running()
    return False


def _open(path: str) -> BinaryIO | None:
    with suppress(FileNotFoundError):
        return open(path, "rb")  # noqa: PTH123 - kept open over a rotation
    return None


def _close(file: BinaryIO | None) -> None:
    if file is not None:
        file.close()


def _content(file: BinaryIO | None) -> bytes:
    return file.read() if file is not None else b""


def _chunks(file: BinaryIO | None) -> Iterator[bytes]:
    while file is not None and (chunk := file.read(CHUNK)):
        yield chunk


def _is_same(one: BinaryIO | None, other: BinaryIO) -> bool:
    return one is not None and os.path.samestat(os.fstat(one.fileno()), os.fstat(other.fileno()))


def _last_lines(text: bytes, count: int | None) -> bytes:
    if count is None:
        return text
    lines = text.splitlines(keepends=True)
    return b"".join(lines[len(lines) - min(count, len(lines)) :])

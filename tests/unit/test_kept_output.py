"""The end of an output that Botpool keeps, without secrets."""

from collections.abc import AsyncIterator

from botpool.engine.lifecycle.output_keeper import MAX_OUTPUT_BYTES, _read_end

SECRET = b"correct-horse-battery-staple"


async def parts(output: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(output), 1000):
        yield output[start : start + 1000]


async def test_secret_across_the_cut_is_still_whole_when_it_is_masked() -> None:
    output = b"x" * 1000 + SECRET + b"y" * (MAX_OUTPUT_BYTES - len(SECRET) // 2)
    end, is_whole = await _read_end(parts(output))
    assert not is_whole
    assert SECRET in end

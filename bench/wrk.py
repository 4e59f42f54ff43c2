"""wrk, a load generator: sends as many requests as its connections take."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

_SCRIPT = """
local paths, tokens, n = %(paths)s, %(tokens)s, 0
wrk.method = "POST"
wrk.body = %(body)s
wrk.headers["Content-Type"] = "application/json"
function request()
    n = n %% #paths + 1
    wrk.headers["Authorization"] = "Bearer " .. tokens[n]
    return wrk.format(nil, paths[n])
end
function done(summary)
    local errors = summary.errors
    io.write("wrong ", errors.status + errors.connect + errors.read, "\\n")
end
"""


def is_installed() -> bool:
    return shutil.which("wrk") is not None


def posts_per_second(
    address: str,
    paths: Sequence[str],
    tokens: Sequence[str],
    *,
    body: Mapping[str, object] | None,
    connections: int = 32,
    seconds: int,
) -> float:
    """Return the POST requests per second over the paths in turn; every request must succeed."""
    script = _SCRIPT % {
        "paths": _table(paths),
        "tokens": _table(tokens),
        "body": json.dumps(json.dumps(body)) if body is not None else '""',
    }
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        done = subprocess.run(
            [
                "wrk",
                "-t1",
                f"-c{connections}",
                f"-d{seconds}s",
                "--timeout",
                "30s",
                "-s",
                file.name,
                address,
            ],
            check=True,
            capture_output=True,
            text=True,
        )
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    wrong = re.search(r"wrong (\d+)", done.stdout)
    assert rate is not None and wrong is not None, done.stdout
    assert int(wrong[1]) == 0, f"{wrong[1]} requests went wrong"
    return float(rate[1])


def _table(values: Sequence[str]) -> str:
    return "{" + ",".join(json.dumps(value) for value in values) + "}"

"""Readiness without a key names settings and kinds of failure, and no addresses."""

import pytest

from botpool.api.readiness_details import public_detail

SETTING = "backends.coolify"
REFUSED = (
    "backends.coolify.token: Coolify answered 403 for https://c.internal:8000/api/v1/x: "
    "Missing permissions"
)
UNREACHABLE = 'connection to server at "10.0.0.5", port 5432 failed: Connection refused'


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        (REFUSED, "backends.coolify.token: Coolify answered 403 for … Missing permissions"),
        (UNREACHABLE, f"{SETTING}: connection to server at …, … failed: Connection refused"),
        (
            "The backend does not answer: Cannot connect to host db.internal:443 ssl:default",
            f"{SETTING}: The backend does not answer: Cannot connect to host … ssl:default",
        ),
        (
            "failed to resolve host 'postgres': unknown",
            f"{SETTING}: failed to resolve host …: unknown",
        ),
        ("no socket at /var/run/docker.sock", f"{SETTING}: no socket at …"),
        ("refused by fe80::1:2", f"{SETTING}: refused by …"),
        ("refused by 10.1.2.3", f"{SETTING}: refused by …"),
    ],
)
def test_detail_names_setting_and_failure_without_addresses(detail: str, shown: str) -> None:
    assert public_detail(detail, setting=SETTING) == shown

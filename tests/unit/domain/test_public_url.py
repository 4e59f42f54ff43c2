"""Addresses that replicas hand out to containers."""

import pytest

from botpool.domain.public_url import address_problems

LOAD_BALANCER = "https://botpool.example.org"


@pytest.mark.parametrize(
    ("own", "others", "backends", "expected"),
    [
        (LOAD_BALANCER, [LOAD_BALANCER], ["process", "coolify"], []),
        ("http://127.0.0.1:8700", [], ["process"], []),
        ("http://10.0.0.5:8700", [], ["process", "docker"], []),
        ("http://127.0.0.1:8700", [], ["process", "docker"], ["reaches only programs on this"]),
        ("http://localhost:8700", [], ["coolify"], ["reaches only programs on this machine"]),
        ("http://[::1]:8700", [], ["coolify"], ["reaches only programs on this machine"]),
        ("http://10.0.0.5:8700", ["http://10.0.0.6:8700"], ["coolify"], ["http://10.0.0.6:8700"]),
        (
            "http://127.0.0.1:1",
            ["http://127.0.0.1:2"],
            ["process"],
            ["hand out http://127.0.0.1:2"],
        ),
    ],
)
def test_address_that_reaches_one_replica_only_is_reported(
    own: str, others: list[str], backends: list[str], expected: list[str]
) -> None:
    found = address_problems(own, others, backends)
    assert len(found) == len(expected)
    assert all(part in problem for part, problem in zip(expected, found, strict=True))

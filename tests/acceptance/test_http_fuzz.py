"""Random requests of users and agents never cause a server error.

The short form sends the same requests at each run. The long form sends others for some minutes, and
for an hour with `make soak`; it prints the number of a failing round, which `FUZZ_ROUND` repeats.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.support.hostile_requests import Credentials, HostileRequest, requests, send
from tests.support.http_server import LINK, Server, bearer, served
from tests.support.postgres import TestPostgres
from tests.support.run_sizes import long_or_soak

EXAMPLES = 250
LONG_S = long_or_soak(240, 3600)
FIRST_ROUND = int(os.environ.get("FUZZ_ROUND", "1"))
NO_RATES = {f"BOTPOOL_LIMITS__{name}_PER_MINUTE": "0" for name in ("REQUESTS", "POSTS", "EVENTS")}
CALL_TIMEOUT_S = 60.0


@pytest.fixture
def server(
    postgres: TestPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server without rates, which would refuse most requests before they are read."""
    url = postgres.create_database(template)
    settings = NO_RATES | {"BOTPOOL_QUEUE__MAX_LENGTH": "100"}
    with served(url, tmp_path_factory.mktemp("fuzzed"), **settings) as server:
        yield server
    postgres.drop_database(url)


class Target:
    """The fuzzed server, with valid keys, tokens and cursors."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.credentials = Credentials(
            keys=[server.new_key(scope) for scope in ("user", "operator", "admin")]
        )
        self.statuses: Counter[int] = Counter()
        self.refresh()

    def refresh(self) -> None:
        """Start a bot for the tokens, unless the requests leave no slot for it."""
        self.get("/v1/pools/google-meet/undrain", "POST")
        self.get("/v1/maintenance/recover", "POST")
        body = {"meetingUrl": LINK, "priority": -5}
        answer = self.get("/v1/bots", "POST", json=body)
        if answer.status_code == 201:
            bot = answer.json()["bot"]
            deadline = time.monotonic() + 5
            while bot["status"] in ("QUEUED", "DEPLOYING") and time.monotonic() < deadline:
                time.sleep(0.05)
                bot = self.get(f"/v1/bots/{bot['id']}").json()["bot"]
            if bot["slotName"] is not None:
                token = self.server.token(bot["id"])
                self.credentials.tokens[:] = [*self.credentials.tokens[-3:], token]
        pages = ("/v1/bots", "/v1/queue", "/v1/slots", "/v1/bots/1/events", "/v1/slots/1/history")
        found = [self.get(f"{path}?limit=1") for path in pages]
        cursors = [page.json().get("nextCursor") for page in found if page.status_code == 200]
        self.credentials.cursors[:] = [cursor for cursor in cursors if cursor]

    def get(self, path: str, method: str = "GET", **more: Any) -> httpx.Response:
        key = self.credentials.keys[-1]
        return httpx.request(
            method, self.server.url + path, headers=bearer(key), timeout=CALL_TIMEOUT_S, **more
        )

    def check(self, request: HostileRequest) -> None:
        response, body = send(self.server.port, request)
        self.statuses[response.status] += 1
        shown = (request, response.status, body[:500])
        assert response.status < 500 or response.status == 503, shown
        if response.status in (429, 503):
            assert response.getheader("Retry-After"), shown
        if response.status >= 400:
            assert response.headers.get_content_type() == "application/problem+json", shown
            problem = json.loads(body)
            assert problem["status"] == response.status, shown
            assert problem["detail"], shown

    def fuzz(self, document: Any, *, examples: int, round_number: int) -> None:
        @seed(round_number)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[*HealthCheck],
            print_blob=False,
        )
        @given(requests(document, self.credentials))
        def check(request: HostileRequest) -> None:
            self.check(request)

        check()


def document_of(server: Server) -> Any:
    return httpx.get(f"{server.url}/openapi.json", timeout=CALL_TIMEOUT_S).json()


@pytest.mark.timeout(600)
def test_random_requests_cause_no_server_error(server: Server) -> None:
    target = Target(server)
    target.fuzz(document_of(server), examples=EXAMPLES, round_number=1)
    # The requests reach the endpoints: some are valid, how many depends on the bots' progress.
    assert target.statuses[200] > 0
    assert {401, 404, 422} <= set(target.statuses)
    assert httpx.get(f"{server.url}/readyz", timeout=CALL_TIMEOUT_S).status_code == 200


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(LONG_S + 1_200)
def test_random_requests_cause_no_server_error_for_long(server: Server) -> None:
    target = Target(server)
    document = document_of(server)
    deadline = time.monotonic() + LONG_S
    number = FIRST_ROUND
    while time.monotonic() < deadline:
        sent = sum(target.statuses.values())
        sys.stdout.write(f"round {number}, {sent} requests: {dict(target.statuses)}\n")
        target.fuzz(document, examples=EXAMPLES, round_number=number)
        target.refresh()
        number += 1
    assert httpx.get(f"{server.url}/readyz", timeout=CALL_TIMEOUT_S).status_code == 200

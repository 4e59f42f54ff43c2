"""When callers try again after an outage."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from botpool.api.problems import add_error_handlers
from botpool.domain.errors import DatabaseProblem, DatabaseUnavailable


@pytest.mark.parametrize(
    ("path", "retry_after"), [("/v1/bots", "30"), ("/v1/agent/slot", "5"), ("/api/trpc/x", "5")]
)
def test_agents_try_again_soon_after_an_outage(path: str, retry_after: str) -> None:
    """A bot whose agent stays away for as long as a full disk asks of others looks silent."""
    app = FastAPI()
    add_error_handlers(app)

    @app.get(path)
    def fail() -> None:
        raise DatabaseUnavailable("no space left", problem=DatabaseProblem.DISK_FULL)

    response = TestClient(app).get(path)
    assert (response.status_code, response.headers["Retry-After"]) == (503, retry_after)

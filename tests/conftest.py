"""What all tiers share: a server, and for each test a migrated database of its own."""

from collections.abc import AsyncIterator, Iterator

import pytest
import structlog
from hypothesis import settings

from botpool.store.migrator import migrate
from tests.support.clock import Clock
from tests.support.components import missing, pytest_configure, pytest_unconfigure
from tests.support.docker_host import docker_host
from tests.support.dockerd import Dockerd
from tests.support.invariants import assert_invariants
from tests.support.kubernetes import Cluster, shared_cluster
from tests.support.postgres import TestPostgres, debian_programs
from tests.support.registry import Registry
from tests.support.replicas import Stage

__all__ = ["pytest_configure", "pytest_unconfigure"]  # hooks, by their names

# Without a deadline for each example: on a busy machine a slow example is no failure.
settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")

# Plain tracebacks: rich ones, with the values of all variables, take minutes on a busy machine.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
)

_DATABASE_FIXTURES = frozenset({"postgres", "own_postgres"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database-only", action="store_true", help="run only the tests that use PostgreSQL"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--database-only"):
        return
    without = [item for item in items if not _DATABASE_FIXTURES & _fixtures(item)]
    config.hook.pytest_deselected(items=without)
    items[:] = [item for item in items if _DATABASE_FIXTURES & _fixtures(item)]


def _fixtures(item: pytest.Item) -> frozenset[str]:
    """The fixtures that a test uses, also indirectly."""
    return frozenset(getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def postgres() -> Iterator[TestPostgres]:
    """The wheel's PostgreSQL, or the version that `BOTPOOL_TEST_POSTGRES` names."""
    with TestPostgres() as server:
        yield server


@pytest.fixture(scope="session")
def debian_postgres() -> Iterator[TestPostgres]:
    """Debian's PostgreSQL: an older one, as users have."""
    programs = debian_programs()
    if programs is None:
        missing("Debian's PostgreSQL", "install the package postgresql")
    with TestPostgres(programs) as server:
        yield server


@pytest.fixture(scope="session")
def dockerd() -> Iterator[Dockerd]:
    """A Docker daemon with the image `bot:1`, whose program is that of the conformance suite."""
    with docker_host() as daemon:
        yield daemon


@pytest.fixture(scope="session")
def kubernetes(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """A Kubernetes cluster of one node, which all workers of the run share."""
    base = tmp_path_factory.getbasetemp()
    is_worker = hasattr(request.config, "workerinput")
    with shared_cluster(base.parent if is_worker else base) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest.fixture(scope="session")
def template(postgres: TestPostgres) -> str:
    """A migrated database whose clock can be moved."""
    url = postgres.create_database()
    migrate(url)
    Clock(url).install()
    return url


@pytest.fixture
def database_url(postgres: TestPostgres, template: str) -> Iterator[str]:
    url = postgres.create_database(template)
    yield url
    postgres.drop_database(url)


@pytest.fixture
def clock(database_url: str) -> Clock:
    return Clock(database_url)


@pytest.fixture
async def stage(database_url: str, clock: Clock) -> AsyncIterator[Stage]:
    """Replicas on one database with a scripted backend; the invariants hold afterwards."""
    async with Stage.set(database_url, clock) as stage:
        yield stage
    assert_invariants(database_url)

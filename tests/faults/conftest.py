"""Options and fixtures of the fault schedules."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-seed", type=int, default=None, help="replay one fault schedule")
    parser.addoption("--fault-rounds", type=int, default=None, help="number of seeds per schedule")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test with a `seed` the seeds of the options; the test's name shows its seed.

    Without an option, `make test` runs seed 0 and `make test-long` seed 1.
    """
    if "seed" not in metafunc.fixturenames:
        return
    seed = metafunc.config.getoption("--fault-seed")
    rounds = metafunc.config.getoption("--fault-rounds")
    if seed is not None:
        metafunc.parametrize("seed", [seed])
    elif rounds is not None:
        metafunc.parametrize("seed", range(rounds))
    else:
        metafunc.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])

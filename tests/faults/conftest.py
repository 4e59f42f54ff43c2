"""Options and fixtures of the fault schedules."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-seed", type=int, default=None, help="replay one fault schedule")
    parser.addoption("--fault-rounds", type=int, default=1, help="number of seeds per schedule")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test with a `seed` the seeds of the options; the test's name shows its seed."""
    if "seed" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--fault-seed")
        rounds = metafunc.config.getoption("--fault-rounds")
        metafunc.parametrize("seed", range(rounds) if seed is None else [seed])

"""`botpool plan`: the table and the settings to paste."""

import tomllib

import pytest

from tests.support.fake_api import botpool

Captured = pytest.CaptureFixture[str]


def test_demo_needs_no_server_and_recommends_settings(capsys: Captured) -> None:
    assert botpool("plan", "--demo") == 0
    printed = capsys.readouterr().out
    table, settings = printed.split("[pools.google-meet.warm]")
    assert "as configured" in table
    (chosen,) = [line for line in table.splitlines() if " * " in line]
    advice = " ".join(table.split("\n* ")[1].split())
    assert chosen.split(" * ")[0] in advice
    warm = tomllib.loads(settings)
    assert warm["windows"]


def test_plan_without_a_pool_names_both_ways(capsys: Captured) -> None:
    assert botpool("plan") == 2
    assert "Name a pool, such as google-meet, or use --demo." in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--timezone", "Mars"), ("--slo", "3"), ("--within", "soon")])
def test_plan_refuses_bad_options(option: tuple[str, str], capsys: Captured) -> None:
    assert botpool("plan", "--demo", *option) == 2
    assert "Traceback" not in capsys.readouterr().err

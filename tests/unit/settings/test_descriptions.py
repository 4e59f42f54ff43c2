"""Every setting describes itself: description, unit, default and an accepted example."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from botpool.settings import Settings, describe_settings, load_settings
from botpool.settings.catalog import DescribedSetting, to_toml
from botpool.settings.effective import shown_value
from tests.unit.settings.conftest import WriteConfig

SETTINGS = [*describe_settings(["google-meet"])]
UNITS_BY_SUFFIX = {"_ms": "ms", "_s": "s", "_days": "days", "_mb": "MiB"}
NUMBERS_WITHOUT_UNIT = {
    "server.port",
    "recovery.stray_share",
    "pools.google-meet.schedule.reservable",
}

HOT = {"pools.google-meet.warm.hot", "pools.google-meet.warm.windows"}
NOT_WITH_HOT = {("command",), ("entrypoint",)}
"""Settings of a pool whose examples do not work with hot slots; that of `protocol` is another."""
TOGETHER = {
    each.path: each.example
    for each in SETTINGS
    if each.path[-1] != "protocol" and each.name not in HOT
}

every_setting = pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: each.name)


@every_setting
def test_description_is_a_plain_sentence(setting: DescribedSetting) -> None:
    assert re.fullmatch(r"[A-Z`].{15,}\.", setting.description), setting.description


@every_setting
def test_number_has_a_unit(setting: DescribedSetting) -> None:
    is_number = isinstance(setting.example, int | float) and setting.example is not True
    assert (setting.unit is not None) == (is_number and setting.name not in NUMBERS_WITHOUT_UNIT)


@every_setting
def test_unit_matches_the_name(setting: DescribedSetting) -> None:
    suffix = next((each for each in UNITS_BY_SUFFIX if setting.name.endswith(each)), None)
    assert suffix is None or setting.unit == UNITS_BY_SUFFIX[suffix]


@every_setting
def test_example_differs_from_default(setting: DescribedSetting) -> None:
    assert setting.example is not None
    assert setting.example != shown_value(setting.path, setting.default)


@every_setting
def test_settings_accept_the_example(setting: DescribedSetting, write_config: WriteConfig) -> None:
    *parents, name = setting.path
    unfit = NOT_WITH_HOT if setting.name in HOT else ()
    all_others = {
        each.path: each.example
        for each in SETTINGS
        if each != setting and each.path in TOGETHER and each.path[2:3] not in unfit
    }
    section = f"[{'.'.join(parents)}]\n" if parents else ""
    write_config(f"{section}{name} = {to_toml(setting.example)}")

    loaded = load_settings(overrides=_tree(all_others)).model_dump()

    for parent in setting.path:
        loaded = loaded[parent]
    assert shown_value(setting.path, loaded) is not None


def test_catalog_has_every_field_of_the_model() -> None:
    dumped = Settings().model_dump()
    dumped["pools"] = {"google-meet": dumped["pools"]["google-meet"]}
    assert {each.path for each in SETTINGS} == set(_leaves(dumped))


@every_setting
def test_every_section_has_a_description(setting: DescribedSetting) -> None:
    assert re.fullmatch(r"[A-Z].+\.", setting.section_description, re.DOTALL)


def test_variable_of_each_setting_sets_it(
    monkeypatch: pytest.MonkeyPatch, write_config: WriteConfig
) -> None:
    write_config("[pools.google-meet]")
    for each in SETTINGS:
        if each.path not in TOGETHER:
            continue
        text = each.example
        if isinstance(text, list) and each.path[-1] == "windows":
            text = json.dumps(text)
        elif isinstance(text, list):
            text = (" " if each.path[-1] in ("command", "entrypoint") else ",").join(text)
        elif isinstance(text, dict):
            text = json.dumps(text)
        monkeypatch.setenv(each.variable, str(text))

    assert load_settings() == Settings(**_tree(TOGETHER))


def test_examples_of_the_reference_page_are_one_valid_file(write_config: WriteConfig) -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"
    examples = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)

    text = "\n".join(examples).replace('protocol = "none"', 'protocol = "botpool"')
    text = re.sub(r"(?m)^(hot|windows) = .*", "", text)
    loaded = load_settings(write_config(text))

    assert loaded == Settings(**_tree(TOGETHER))


def _tree(values: dict[tuple[str, ...], object]) -> dict[str, Any]:
    lines = (f"{'.'.join(path)} = {to_toml(value)}" for path, value in values.items())
    return tomllib.loads("\n".join(lines))


def _leaves(tree: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, value in tree.items():
        is_section = isinstance(value, dict) and name not in ("env", "secrets", "node_selector")
        found += _leaves(value, (*path, name)) if is_section else [(*path, name)]
    return found

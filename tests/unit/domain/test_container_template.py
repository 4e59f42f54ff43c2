"""Placeholders in the environment and the command of a pool's containers."""

import json
from typing import Any

import pytest

from botpool.domain.container_template import (
    ContainerTemplate,
    PlaceholderValues,
    fill,
    unknown_placeholders,
)

HOSTILE = 'Eve", "admin": true, "x": "'


def values(**bot_data: Any) -> PlaceholderValues:
    return PlaceholderValues(
        values={
            "bot.id": "7",
            "bot.meetingUrl": "https://zoom.us/j/1?pwd=x",
            "bot.displayName": HOSTILE,
            "bot.joinAt": "",
            "token": "t.1",
            "url": "https://botpool.example.org",
            "containerId": "pool-zoom-001",
        },
        bot_data=bot_data,
    )


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("{bot.id}", "7"),
        (
            "{url}/bots/{bot.id}?c={containerId}",
            "https://botpool.example.org/bots/7?c=pool-zoom-001",
        ),
        ("[{bot.joinAt}]", "[]"),
        ("{botData.lang}-{botData.room.name}-{botData.none}-{botData.lang.deep}", "de-blue--"),
        ("{botData.count} {botData.flag} {botData.room}", '3 true {"name": "blue"}'),
        ("${HOME} {{token}} { token } {}", "${HOME} {token} { token } {}"),
        ("{botData.text}", "{bot.id}"),
    ],
)
def test_placeholders_are_filled_in_once(text: str, filled: str) -> None:
    data = {"lang": "de", "room": {"name": "blue"}, "count": 3, "flag": True, "text": "{bot.id}"}
    assert fill(text, values(**data)) == filled
    assert not list(unknown_placeholders(text))


def test_values_cannot_break_out_of_a_json_text() -> None:
    text = '{"name": "{bot.displayName}", "id": "{bot.id}", "list": ["{token}"], "retry": 3}'
    assert json.loads(fill(text, values())) == {
        "name": HOSTILE,
        "id": "7",
        "list": ["t.1"],
        "retry": 3,
    }


@pytest.mark.parametrize("text", ["{bot.name}", "x{BOT_ID}", "{botdata.x}", '{"a": "{tokn}"}'])
def test_unknown_placeholders_are_found(text: str) -> None:
    assert len(list(unknown_placeholders(text))) == 1


def test_template_adds_to_botpools_own_variables_and_shows_no_secret() -> None:
    template = ContainerTemplate(
        env={"ROOM": "{botData.room}", "MODE": "prod"},
        secrets={"S3_KEY": "sentinel{token}", "PIN": "1"},
        command=("--url", "{bot.meetingUrl}"),
        entrypoint=("/bin/bot",),
    )
    program = template.fill({"BOTPOOL_TOKEN": "t.1"}, values(room="blue"))
    assert program.environment == {
        "BOTPOOL_TOKEN": "t.1",
        "ROOM": "blue",
        "MODE": "prod",
        "S3_KEY": "sentinel{token}",
        "PIN": "1",
    }
    assert program.command == ("--url", "https://zoom.us/j/1?pwd=x")
    assert program.entrypoint == ("/bin/bot",)
    assert "sentinel" not in repr(template) + repr(program)
    assert template.mask_bytes(b"\xff sentinel{token}") == b"\xff ********"
    assert template.mask("1: got sentinel{token}!") == "1: got ********!"

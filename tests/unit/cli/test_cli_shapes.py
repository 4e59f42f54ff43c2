"""The command line reads what the API answers."""

from typing import Any

import pytest

from botpool.api import schemas
from botpool.cli import shapes
from tests.unit.cli.answering import bot

PAIRS = [
    (shapes.Bot, schemas.Bot),
    (shapes.BotAnswer, schemas.BotAnswer),
    (shapes.BotPage, schemas.BotPage),
    (shapes.Event, schemas.Event),
    (shapes.SlotEvent, schemas.SlotEvent),
    (shapes.Queue, schemas.Queue),
    (shapes.QueueEntry, schemas.QueueEntry),
    (shapes.Slot, schemas.Slot),
    (shapes.Slots, schemas.Slots),
    (shapes.Pool, schemas.Pool),
    (shapes.Pools, schemas.Pools),
    (shapes.BackendHealth, schemas.BackendHealth),
]


@pytest.mark.parametrize(("shape", "model"), PAIRS)
def test_every_part_that_is_read_is_answered(shape: Any, model: type[schemas.Model]) -> None:
    answered = {field.alias or name for name, field in model.model_fields.items()}
    assert shape.__required_keys__ | shape.__optional_keys__ <= answered


def test_a_whole_answer_lacks_nothing_and_more_does_no_harm() -> None:
    page = {"bots": [bot(1), bot(2, newField=True)], "nextCursor": None, "more": 1}
    assert shapes.missing_part(page, shapes.BotPage) is None


def test_what_is_missing_is_named_by_its_path() -> None:
    broken = bot(2)
    del broken["slotName"]
    page = {"bots": [bot(1), broken], "nextCursor": None}
    assert shapes.missing_part(page, shapes.BotPage) == "bots.1.slotName"
    assert shapes.missing_part({"bots": {}}, shapes.BotPage) == "bots"
    assert shapes.missing_part([], shapes.BotAnswer) == "an object"

"""The client's records agree with the API's models."""

from typing import Any

import pytest
from pydantic.alias_generators import to_snake

from botpool.api import operator_schemas, schemas
from botpool.client import records
from tests.support.fake_api import bot_json, pool_json, queue_entry_json, slot_json

PAIRS = [
    (records.Bot, schemas.Bot),
    (records.Event, schemas.Event),
    (records.SlotEvent, operator_schemas.SlotEvent),
    (records.Change, schemas.Change),
    (records.QueueEntry, schemas.QueueEntry),
    (records.Slot, operator_schemas.Slot),
    (records.Pool, operator_schemas.Pool),
    (records.BackendHealth, operator_schemas.BackendHealth),
    (records.RecoveryResult, operator_schemas.RecoveryCounts),
]
CLIENT_ONLY = {
    "queue_position", "estimated_wait_ms", "warning", "progress", "last_media_at", "cursor",
}  # fmt: skip
BODIES = [
    (records.Bot, bot_json()),
    (records.Slot, slot_json()),
    (records.Pool, pool_json()),
    (records.QueueEntry, queue_entry_json()),
]


PYTHON_NAMES = {"from": "from_state", "to": "to_state"}
"""JSON fields that the client names differently, because `from` is a Python keyword."""


@pytest.mark.parametrize(("record", "model"), PAIRS)
def test_record_has_the_fields_of_its_model(record: Any, model: type[schemas.Model]) -> None:
    aliases = {to_snake(field.alias or name) for name, field in model.model_fields.items()}
    served = {PYTHON_NAMES.get(alias, alias) for alias in aliases}
    assert set(record.__dataclass_fields__) - CLIENT_ONLY == served - CLIENT_ONLY


@pytest.mark.parametrize(("record", "body"), BODIES)
def test_unknown_field_is_ignored_and_missing_field_is_named(
    record: type, body: dict[str, Any]
) -> None:
    whole = records.read(record, body)
    assert records.read(record, {**body, "fieldOfALaterServer": 1}) == whole
    for name in body:
        with pytest.raises(KeyError, match=name):
            records.read(record, {key: value for key, value in body.items() if key != name})

"""The variables that bots of other systems expect in their environment, by protocol."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from botpool.domain.communication import Protocol
from botpool.domain.meeting_links import pool_name_of

VEXA_CALLBACK = "/v1/agent/vexa/status_change"
_VEXA_PLATFORMS = {"google-meet": "google_meet"}
_VEXA_CONFIG = "VEXA_BOT_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolValues:
    """The values of one start."""

    url: str
    token: str = field(repr=False)
    container_id: str
    bot_id: int
    pool_name: str
    meeting_url: str = field(repr=False)
    display_name: str
    bot_data: Mapping[str, Any] = field(repr=False)


def with_protocol(
    protocol: Protocol, environment: Mapping[str, str], values: ProtocolValues
) -> dict[str, str]:
    """Return the environment of a start with the variables of its protocol.

    The settings of the pool have precedence, except in the fields of Vexa's configuration that name
    the bot and Botpool. Its other fields come from the pool and from `botData.vexa`.
    """
    if protocol is Protocol.MEEBOTER:
        return {
            "NODE_ENV": "production",
            "MILO_URL": values.url,
            "MILO_AUTH_TOKEN": values.token,
            "POOL_SLOT_UUID": values.container_id,
            **environment,
        }
    if protocol is Protocol.VEXA:
        config = _vexa_config(environment.get(_VEXA_CONFIG, ""), values)
        # Images before 0.12 read the second name.
        return {**environment, _VEXA_CONFIG: config, "BOT_CONFIG": config}
    return dict(environment)


def _vexa_config(of_pool: str, values: ProtocolValues) -> str:
    pool_name = pool_name_of(values.meeting_url) or values.pool_name
    config = {
        **_object(of_pool),
        **_fields(values.bot_data.get("vexa")),
        "platform": _VEXA_PLATFORMS.get(pool_name, pool_name),
        "meetingUrl": values.meeting_url,
        "botName": values.display_name,
        "meeting_id": values.bot_id,
        "connectionId": values.container_id,
        "token": values.token,
        "internalSecret": values.token,
        "meetingApiCallbackUrl": values.url + VEXA_CALLBACK,
    }
    return json.dumps(config)


def _object(text: str) -> dict[str, Any]:
    try:
        return _fields(json.loads(text))
    except ValueError:
        return {}


def _fields(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}

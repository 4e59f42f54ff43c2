"""The response that shows one bot."""

from typing import Any

from fastapi import Response
from pydantic import TypeAdapter

from botpool.api import schemas
from botpool.domain.bots import AdmittedBot

_BODY = TypeAdapter(dict[str, Any])


def bot_response(
    admitted: AdmittedBot,
    *,
    status: int,
    headers: dict[str, str] | None = None,
    warning: str | None = None,
) -> Response:
    """Write a bot with its queue position.

    The record comes from the database, so no response model validates it again.
    """
    body: dict[str, Any] = {"bot": schemas.bot_fields(admitted.bot)}
    if admitted.position is not None:
        body["queuePosition"] = admitted.position
    if admitted.estimated_wait_ms is not None:
        body["estimatedWaitMs"] = admitted.estimated_wait_ms
    if warning is not None:
        body["warning"] = warning
    if admitted.progress is not None:
        body["progress"] = admitted.progress
    if admitted.last_media_at is not None:
        body["lastMediaAt"] = admitted.last_media_at
    return Response(
        _BODY.dump_json(body), status_code=status, headers=headers, media_type="application/json"
    )

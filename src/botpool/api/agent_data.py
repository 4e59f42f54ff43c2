"""Routes for the data that agents send for their bots: artifacts and screenshots."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request

from botpool.api import agent_schemas, bot_data_schemas
from botpool.api.auth import AgentAssignment, Service
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.parameters import BotPath
from botpool.api.patterns import PRINTABLE
from botpool.api.problems import error_responses
from botpool.domain.bot_data import MAX_SCREENSHOT_BYTES, NewArtifact, Screenshot

_ERRORS = error_responses(400, 401, 404, 413, 415, 422, 503)
_PICTURES = ("image/png", "image/jpeg", "image/webp")

routes = APIRouter(
    prefix="/v1/agent/bots/{id}", tags=["containers"], route_class=AuthenticatedRoute
)


@routes.post("/artifacts", responses=_ERRORS)
async def record_artifacts(
    replica: Service, assignment: AgentAssignment, bot_id: BotPath, body: agent_schemas.Artifacts
) -> agent_schemas.Recorded:
    """List files that the bot made, by reference: at most 100 for each bot.

    The same kind and location again replaces its entry. After the release this records nothing.
    """
    artifacts = [
        NewArtifact(
            kind=each.kind,
            location=each.location,
            size_bytes=each.size_bytes,
            content_type=each.content_type,
        )
        for each in body.artifacts
    ]
    recorded = await replica.agent_data.record_artifacts(assignment, bot_id, artifacts)
    return agent_schemas.Recorded(recorded=recorded)


@routes.post(
    "/screenshots",
    responses=_ERRORS,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}} for kind in _PICTURES
            },
        }
    },
)
async def add_screenshot(
    request: Request,
    replica: Service,
    assignment: AgentAssignment,
    bot_id: BotPath,
    note: Annotated[str, Query(max_length=200, pattern=PRINTABLE)] = "",
) -> agent_schemas.NewScreenshot:
    """Send a screenshot: PNG, JPEG or WebP, at most 512 KiB.

    Botpool keeps the last three of a bot. After the release, and after 100 screenshots, it keeps
    none, and `screenshot` is null.
    """
    content = await request.body()
    require_size(content)
    added = await replica.agent_data.add_screenshot(assignment, bot_id, content, note)
    return agent_schemas.NewScreenshot(screenshot=_shown(added))


def require_size(content: bytes) -> None:
    """Refuse a picture that is too large."""
    if len(content) > MAX_SCREENSHOT_BYTES:
        raise HTTPException(413, f"A screenshot may have at most {MAX_SCREENSHOT_BYTES} bytes.")


def _shown(screenshot: Screenshot | None) -> bot_data_schemas.Screenshot | None:
    return None if screenshot is None else bot_data_schemas.Screenshot.of(screenshot)

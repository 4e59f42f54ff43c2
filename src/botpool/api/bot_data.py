"""Routes for the data that is kept with a bot: artifacts, screenshots and commands."""

from fastapi import APIRouter, Response

from botpool.api import bot_data_schemas
from botpool.api.auth import OwnBot, Service
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.paging import Limit, PageCursor, decode_cursor, encode_cursor
from botpool.api.parameters import ScreenshotPath
from botpool.api.problems import error_responses
from botpool.domain.pages import CommandPosition

_ERRORS = error_responses(401, 403, 404, 422, 503)
_PICTURE_HEADERS = {
    # An agent sent the picture: a browser must show it as a picture, and as nothing else.
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}

routes = APIRouter(prefix="/v1/bots/{id}", tags=["users"], route_class=AuthenticatedRoute)


@routes.get("/artifacts", responses=_ERRORS)
async def list_artifacts(replica: Service, bot_id: OwnBot) -> bot_data_schemas.Artifacts:
    """List the files that the bot made, in the bot's order. The bot's storage has the files."""
    found = await replica.bot_data.artifacts(bot_id)
    return bot_data_schemas.Artifacts(
        artifacts=[bot_data_schemas.Artifact.of(each) for each in found]
    )


@routes.get("/screenshots", responses=_ERRORS)
async def list_screenshots(replica: Service, bot_id: OwnBot) -> bot_data_schemas.Screenshots:
    """List the last three screenshots that the bot's agent sent, oldest first."""
    found = await replica.bot_data.screenshots(bot_id)
    return bot_data_schemas.Screenshots(
        screenshots=[bot_data_schemas.Screenshot.of(each) for each in found]
    )


@routes.get(
    "/screenshots/{number}",
    response_class=Response,
    responses={
        200: {
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}}
                for kind in ("image/jpeg", "image/png", "image/webp")
            }
        },
        **_ERRORS,
    },
)
async def get_screenshot(replica: Service, bot_id: OwnBot, number: ScreenshotPath) -> Response:
    """Get a screenshot as a picture."""
    picture = await replica.bot_data.screenshot(bot_id, number)
    return Response(picture.content, media_type=picture.content_type, headers=_PICTURE_HEADERS)


@routes.post(
    "/commands", status_code=202, responses=error_responses(400, 401, 403, 404, 409, 413, 422, 503)
)
async def send_command(
    replica: Service, bot_id: OwnBot, body: bot_data_schemas.CommandCreate
) -> bot_data_schemas.CommandResponse:
    """Send a command to a bot, for example `chat` with a `text`.

    The bot's next heartbeat receives it, after the earlier ones and at least once. What a command
    does is up to the bot.
    """
    command = await replica.bot_commands.send(bot_id, body.kind, body.data)
    return bot_data_schemas.CommandResponse(command=bot_data_schemas.Command.of(command))


@routes.get("/commands", responses=_ERRORS)
async def list_commands(
    replica: Service, bot_id: OwnBot, limit: Limit = 100, cursor: PageCursor = None
) -> bot_data_schemas.Commands:
    """List the commands to a bot with their states, oldest first."""
    page = await replica.bot_data.commands(
        bot_id, after=decode_cursor(CommandPosition, cursor), limit=limit
    )
    return bot_data_schemas.Commands(
        commands=[bot_data_schemas.Command.of(each) for each in page.items],
        next_cursor=encode_cursor(page.next),
    )

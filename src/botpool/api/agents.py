"""Routes for the agents inside containers."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from botpool.api import agent_schemas
from botpool.api.auth import AgentAssignment, EventAssignment, Service, WaitingStandby
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.parameters import BotPath
from botpool.api.patterns import VISIBLE
from botpool.api.problems import error_responses
from botpool.api.schemas import Model
from botpool.domain.ids import ContainerId
from botpool.domain.states import FINAL, BotStatus
from botpool.engine.agents.standby_polls import PollAnswer

_ERRORS = error_responses(401, 404, 422, 503)
_STANDBY_ERRORS = error_responses(401, 422, 503)
_BODY_ERRORS = error_responses(400, 401, 404, 413, 415, 422, 503)

routes = APIRouter(prefix="/v1/agent", tags=["containers"], route_class=AuthenticatedRoute)


@routes.get("/slot", response_model=agent_schemas.AgentSlot, responses=_ERRORS)
async def identify(
    request: Request,
    replica: Service,
    assignment: AgentAssignment,
    container_id: Annotated[str, Query(alias="containerId", min_length=1, max_length=255)],
    boot_id: Annotated[
        str | None,
        Query(
            alias="bootId",
            max_length=64,
            pattern=VISIBLE,
            description="A random id of this start of the agent's process, the same in a retry. A "
            "second one within an assignment proves that the container exited in between: "
            "Botpool ends the bot, and `released` is true.",
        ),
    ] = None,
) -> Response:
    """Get the bot of this agent. Call it before joining; exit if `released` is true.

    With a token that a waiting container got for its bot, the first call accepts the bot.

    After the release, the answer has neither `meetingUrl` nor `botData`.
    """
    container, run_id = ContainerId(container_id), request.state.run_id
    if run_id is not None:
        view, released = await replica.agents.accept(assignment, run_id, container, boot_id)
    else:
        view, released = await replica.agents.identify(assignment, container, boot_id)
    interval_ms = replica.policy.heartbeat_interval_ms
    if released:
        bot = agent_schemas.AgentBot.without_link(view.bot)
        answer = agent_schemas.AgentSlot(bot=bot, released=True, heartbeat_interval_ms=interval_ms)
        return _json(answer)
    waits = {} if view.join_in_ms is None else {"join_in_ms": max(view.join_in_ms, 0)}
    return _json(
        agent_schemas.AgentSlot(
            bot=agent_schemas.AgentBot.of(view.bot),
            bot_data=dict(view.bot_data),
            released=False,
            heartbeat_interval_ms=interval_ms,
            **waits,
        )
    )


def _json(answer: Model) -> Response:
    """Return the fields that were set. FastAPI would convert and validate the answer again."""
    text = answer.model_dump_json(by_alias=True, exclude_unset=True)
    return Response(text, media_type="application/json")


@routes.get("/assignment", response_model=agent_schemas.StandbyAnswer, responses=_STANDBY_ERRORS)
async def wait_for_assignment(
    request: Request,
    replica: Service,
    standby: WaitingStandby,
    wait: Annotated[
        float, Query(ge=0, le=60, description="How many seconds to wait for a bot.")
    ] = 30,
    boot_id: Annotated[str | None, Query(alias="bootId", max_length=64, pattern=VISIBLE)] = None,
) -> Response:
    """Wait for a bot, in a container that runs without one (`BOTPOOL_STANDBY_TOKEN`).

    Without a bot, poll again at once: Botpool counts the container as ready while a poll is open.
    With a bot, use the token of the answer, and accept the bot with `GET /v1/agent/slot` before
    joining anything. The answer can be requested again until then, and is the same. If
    `shouldExit` is true, wait for SIGTERM or exit.
    """
    slot_id, run_id = standby
    poll = asyncio.create_task(
        replica.standby_polls.wait(slot_id, run_id, boot_id=boot_id, wait_s=wait)
    )
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({poll, gone}, return_when=asyncio.FIRST_COMPLETED)
        answer = await poll if poll.done() else PollAnswer()
    finally:
        for task in (poll, gone):
            task.cancel()
    return _json(agent_schemas.StandbyAnswer.of_poll(answer))


async def _disconnected(request: Request) -> None:
    """Wait until the caller has gone: then its container may have, too."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@routes.post("/bots/{id}/heartbeat", response_model=agent_schemas.Heartbeat, responses=_BODY_ERRORS)
async def heartbeat(
    replica: Service,
    assignment: AgentAssignment,
    bot_id: BotPath,
    body: agent_schemas.HeartbeatBody | None = None,
) -> Response:
    """Send a heartbeat. The response says whether to leave or to exit, and has commands.

    The body is optional, and so is each of its fields.
    """
    report = body.report() if body is not None else None
    instructions = await replica.agents.heartbeat(assignment, bot_id, report)
    response = agent_schemas.Heartbeat(
        should_leave=instructions.should_leave,
        should_exit=instructions.should_exit,
        commands=[agent_schemas.Command.of(each) for each in instructions.commands],
        join_in_ms=instructions.join_in_ms,
    )
    # Agents call this most often; FastAPI would validate the body a second time.
    excluded = {"join_in_ms"} if instructions.join_in_ms is None else None
    text = response.model_dump_json(by_alias=True, exclude=excluded)
    return Response(text, media_type="application/json")


@routes.post("/bots/{id}/status", response_model_exclude_unset=True, responses=_BODY_ERRORS)
async def report_status(
    replica: Service, assignment: AgentAssignment, bot_id: BotPath, body: agent_schemas.StatusReport
) -> agent_schemas.Applied:
    """Report a status. A late or backward report changes nothing and gets `applied: false`.

    JOINING_CALL asks for permission to join: the answer may be `joinInMs`, a new time, or
    `shouldExit`. An agent that gets no answer for 2 s at its time joins.
    """
    status = BotStatus("FAILED" if body.status == "FATAL" else body.status)
    applied = await replica.agents.report(
        assignment, bot_id, status, body.failure_reason, body.end_reason
    )
    # NotFound if the assignment is unknown: the bot of this id may be another agent's.
    bot = (await replica.agents.find(assignment)).bot
    # An applied report that did not end the bot proves that the assignment lasts.
    lasts = applied and bot.status not in FINAL
    model = agent_schemas.AgentBot
    shown = model.of(bot) if lasts else model.without_link(bot)
    answer = agent_schemas.Applied(applied=applied, bot=shown)
    if status is BotStatus.JOINING_CALL and not applied:
        join_in_ms, should_exit = await replica.agents.permission_to_join(assignment)
        if join_in_ms is not None:
            answer.join_in_ms = join_in_ms
        if should_exit:
            answer.should_exit = True
    return answer


@routes.post("/bots/{id}/events", responses=_BODY_ERRORS)
async def record_events(
    replica: Service, assignment: EventAssignment, bot_id: BotPath, body: agent_schemas.AgentEvents
) -> agent_schemas.Recorded:
    """Add events to the bot's history. After the release this records nothing.

    Events above a limit of the assignment (`limits.events_…`) get 429, and none of the request's
    events is recorded. Wait for `Retry-After`; statuses and heartbeats are not limited.
    """
    events = [(event.kind, event.data) for event in body.events]
    recorded = await replica.agents.record(assignment, bot_id, events)
    return agent_schemas.Recorded(recorded=recorded)

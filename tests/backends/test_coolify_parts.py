"""Pure functions of the Coolify backend: images, statuses, fence and descriptions."""

import json

import pytest

from botpool.backends.coolify import fence, formats
from botpool.backends.coolify.logs import _count_overlap
from botpool.backends.coolify.responses import (
    Application,
    Deployment,
    StartResponse,
    Variable,
    parse,
    parse_list,
)
from botpool.backends.protocol import StartRequest
from botpool.domain.errors import BackendUnavailable, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState, DeploymentState
from tests.backends.coolify_harness import config


@pytest.mark.parametrize(
    ("reference", "name", "tag"),
    [
        ("bot", "bot", "latest"),
        ("bot:1.2", "bot", "1.2"),
        ("registry.example:5000/team/bot", "registry.example:5000/team/bot", "latest"),
        ("registry.example:5000/team/bot:1.2", "registry.example:5000/team/bot", "1.2"),
        ("team/bot@sha256:abc", "team/bot@sha256", "abc"),
        ("host:5000/bot:1.2@sha256:abc", "host:5000/bot@sha256", "abc"),
    ],
)
def test_image_reference_is_split_into_name_and_tag(reference: str, name: str, tag: str) -> None:
    assert formats.split_image(reference) == (name, tag)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("running:healthy", ContainerState.RUNNING),
        ("running:unhealthy", ContainerState.RUNNING),
        ("running", ContainerState.RUNNING),
        ("starting:unknown", ContainerState.STARTING),
        ("restarting:unknown", ContainerState.RESTARTING),
        ("degraded:unhealthy", ContainerState.DEGRADED),
        ("exited:unhealthy", ContainerState.EXITED),
        ("stopped:unknown", ContainerState.STOPPED),
        ("error:unhealthy", ContainerState.ERROR),
        ("paused:unknown", ContainerState.UNKNOWN),
        ("exiting", ContainerState.UNKNOWN),
    ],
)
def test_container_status_is_parsed(status: str, state: ContainerState) -> None:
    fields = {"uuid": "a", "name": "n", "status": status}
    assert parse(Application, {**fields, "server_status": True}).state is state
    unreachable = parse(Application, {**fields, "server_status": False})
    assert unreachable.state is ContainerState.UNKNOWN


def test_deployment_status_is_parsed() -> None:
    def state(status: str) -> DeploymentState | None:
        return parse(Deployment, {"deployment_uuid": "d", "status": status}).state

    assert state("cancelled-by-user") is DeploymentState.CANCELLED
    assert state("in_progress") is DeploymentState.IN_PROGRESS
    assert state("on holiday") is None


def test_list_may_be_object_with_numeric_keys() -> None:
    a, b = StartResponse(message="a"), StartResponse(message="b")
    assert parse_list(StartResponse, [{"message": "a"}, {"message": "b"}]) == [a, b]
    assert parse_list(StartResponse, {"10": {"message": "b"}, "2": {"message": "a"}}) == [a, b]
    assert parse_list(StartResponse, {}) == []
    for wrong in (None, "[]", {"message": "no"}, 7, [7]):
        with pytest.raises(BackendUnavailable):
            parse_list(StartResponse, wrong)


@pytest.mark.parametrize("shown", [False, 0, "0", "false"])
def test_unreachable_server_is_recognized_in_any_form(shown: object) -> None:
    fields = {"uuid": "a", "name": "n", "status": "exited:unhealthy", "server_status": shown}
    application = parse(Application, fields)
    assert application.state is ContainerState.UNKNOWN


@pytest.mark.parametrize(
    ("deployment", "own"),
    [
        ({"deployment_url": "/x/application/abc/deployment/d"}, True),
        ({"deployment_url": "/x/application/abcd/deployment/d"}, False),
        ({"deployment_url": "/application/other/deployment/abc"}, False),
        ({"application_name": "pool-1"}, True),
    ],
)
def test_deployment_is_matched_to_its_application(deployment: dict[str, str], own: bool) -> None:
    application = parse(Application, {"uuid": "abc", "name": "pool-1", "status": "exited"})
    content = {"deployment_uuid": "d", "status": "queued", **deployment}
    assert parse(Deployment, content).is_of(application) is own


def start_request(number: int = 12, **environment: str) -> StartRequest:
    return StartRequest(
        container_id=ContainerId("a"),
        assignment_id=AssignmentId(number),
        correlation_id="",
        environment=environment,
    )


def variables(**values: str) -> list[Variable]:
    return [Variable(key=key, value=value, is_preview=False) for key, value in values.items()]


def test_start_variables_end_with_assignment_and_empty_old_ones() -> None:
    previous = fence.parse_fence(
        [
            *variables(
                BOT_DATA="{}",
                TOKEN="old",
                FOREIGN="kept",
                BOTPOOL_ASSIGNMENT="11",
                BOTPOOL_VARIABLES="BOT_DATA TOKEN",
            ),
            Variable(key="BOTPOOL_ASSIGNMENT", value="99", is_preview=True),
        ]
    )
    assert previous.assignment == 11
    written = fence.start_variables(start_request(TOKEN="new"), previous=previous, mark="d7")
    assert list(written.items()) == [
        ("BOTPOOL_VARIABLES", "BOTPOOL_WAIT_FOR_STOP_S BOT_DATA TOKEN"),
        ("BOT_DATA", ""),
        ("TOKEN", "new"),
        ("BOTPOOL_WAIT_FOR_STOP_S", "600"),
        ("BOTPOOL_START_MARK", "12:d7"),
        ("BOTPOOL_ASSIGNMENT", "12"),
    ]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("it's $5", "it\\u0027s \\u00245"),
        ("Stand-up #12", "Stand-up \\u002312"),
        ("{{team.SECRET}}", "{\\u007bteam.SECRET}}"),
        ("{{{{x", "{\\u007b{\\u007bx"),
        ("{{{x", "{\\u007b{x"),
        ("C:\\\\$", "C:\\\\\\u0024"),
    ],
)
def test_bot_data_is_escaped(text: str, escaped: str) -> None:
    written = fence.escaped_environment({"BOT_DATA": f'{{"a": "{text}"}}', "OTHER": text})
    assert written == {"BOT_DATA": f'{{"a": "{escaped}"}}', "OTHER": text}
    assert json.loads(written["BOT_DATA"]) == json.loads(f'{{"a": "{text}"}}')


@pytest.mark.parametrize(("characters", "fits"), [("x", True), ("xx", False), ("#", False)])
def test_bot_data_over_64_kib_as_written_is_left_to_the_agent(characters: str, fits: bool) -> None:
    filler = "x" * (fence.MAX_BOT_DATA_BYTES - len('{"a": ""}') - 1)
    written = fence.escaped_environment({"BOT_DATA": f'{{"a": "{filler}{characters}"}}'})
    assert ("BOT_DATA" in written) is fits


def test_later_variables_with_the_same_key_are_duplicates() -> None:
    listed = [
        Variable(uuid="1", key="A", value="new"),
        Variable(uuid="2", key="A", value="new", is_preview=True),
        Variable(uuid="3", key="A", value="old"),
        Variable(uuid="4", key="B", value=""),
        Variable(uuid="5", key="A", value="old", is_preview=True),
    ]
    assert [variable.uuid for variable in fence.duplicates(listed)] == ["3", "5"]
    assert fence.duplicates(listed[:2]) == []


def test_fence_refuses_stopped_and_overtaken_assignments() -> None:
    def refuses(number: int, **values: str) -> bool:
        try:
            fence.parse_fence(variables(**values)).require_startable(
                ContainerId("a"), AssignmentId(number)
            )
        except StartSuperseded:
            return True
        return False

    assert refuses(12, BOTPOOL_STOPPED_THROUGH="12")
    assert refuses(12, BOTPOOL_STOPPED_THROUGH="13")
    assert refuses(12, BOTPOOL_ASSIGNMENT="13")
    assert not refuses(12, BOTPOOL_ASSIGNMENT="12", BOTPOOL_STOPPED_THROUGH="11")
    assert not refuses(12)


def test_mark_of_another_assignment_is_superseded() -> None:
    found = fence.parse_fence(variables(BOTPOOL_ASSIGNMENT="11", BOTPOOL_START_MARK="12:d7"))
    with pytest.raises(StartSuperseded):
        found.mark_of(ContainerId("a"), AssignmentId(11))


def test_oldest_deployment_after_the_mark_belongs_to_the_start() -> None:
    newest_first = [
        parse(Deployment, {"deployment_uuid": uuid, "status": "finished"}) for uuid in "cba"
    ]
    after_a = fence.first_after("a", newest_first)
    assert after_a is not None
    assert after_a.uuid == "b"
    assert fence.first_after("c", newest_first) is None
    assert fence.first_after("none", []) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[BUSY] Bot #7 - 2025-12-16T21:30:00Z", "[BUSY] Bot #7 - 2025-12-16T21:30:00Z"),
        ("  [ERROR] a <b>\n\tc\0 ", "[ERROR] a (b> c"),
        ("x" * 255, "x" * 255),
        ("x" * 300, "x" * 254 + "…"),
    ],
)
def test_description_is_cleaned(text: str, shown: str) -> None:
    assert formats.clean_description(text) == shown


def test_followed_log_yields_only_new_lines() -> None:
    assert _count_overlap([], ["a"]) == 0
    assert _count_overlap(["a", "b"], ["a", "b", "c"]) == 2
    assert _count_overlap(["a", "b", "c"], ["b", "c", "d"]) == 2
    assert _count_overlap(["a", "a"], ["a", "a", "a"]) == 2
    assert _count_overlap(["a"], ["x", "y"]) == 0


def test_installations_that_differ_in_case_have_different_tags() -> None:
    tags = {config(name).tag for name in ("prod", "Prod", "PROD")}
    assert len(tags) == 3
    assert config("prod").tag == "botpool-prod"
    assert all(tag == tag.lower() for tag in tags)


def test_token_is_not_in_repr() -> None:
    assert "1|emulated" not in repr(config())


@pytest.mark.parametrize(
    "url",
    [
        "https://coolify.acme.org",
        "https://coolify.acme.org/",
        "https://coolify.acme.org/api/v1",
        "https://coolify.acme.org/api/v1/",
    ],
)
def test_address_is_accepted_with_and_without_the_path_of_the_api(url: str) -> None:
    assert config(url=url).api_url == "https://coolify.acme.org/api/v1"

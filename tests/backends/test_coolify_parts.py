"""The pure parts of the Coolify backend: names, words, marks and texts."""

import pytest

from botpool.backends.coolify import answers, fence, images, statuses
from botpool.backends.coolify.answers import Variable
from botpool.backends.coolify.descriptions import shown_as_written
from botpool.backends.coolify.logs import _overlap
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
def test_images_are_split_where_coolify_joins_them(reference: str, name: str, tag: str) -> None:
    image = images.split(reference)
    assert (image.name, image.tag) == (name, tag)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("running:healthy", ContainerState.RUNNING),
        ("running:unhealthy", ContainerState.RUNNING),
        ("running (healthy)", ContainerState.RUNNING),
        ("running", ContainerState.RUNNING),
        ("starting:unknown", ContainerState.STARTING),
        ("restarting:unknown", ContainerState.STARTING),
        ("degraded:unhealthy", ContainerState.DEGRADED),
        ("exited:unhealthy", ContainerState.EXITED),
        ("paused:unknown", ContainerState.UNKNOWN),
        ("exiting", ContainerState.UNKNOWN),
        ("", ContainerState.UNKNOWN),
    ],
)
def test_statuses_with_health_are_understood(status: str, state: ContainerState) -> None:
    assert statuses.container_state(status, server_reachable=True) is state
    unreachable = statuses.container_state(status, server_reachable=False)
    assert unreachable is ContainerState.UNKNOWN


def test_states_of_deployments_are_understood() -> None:
    assert statuses.deployment_state("cancelled-by-user") is DeploymentState.CANCELLED
    assert statuses.deployment_state("in_progress") is DeploymentState.IN_PROGRESS
    assert statuses.deployment_state("on holiday") is None


def test_lists_may_be_objects_with_numbers_for_keys() -> None:
    assert answers.sequence(["a", "b"], "x") == ["a", "b"]
    assert answers.sequence({"10": "b", "2": "a"}, "x") == ["a", "b"]
    assert answers.sequence({}, "x") == []
    for wrong in (None, "[]", {"message": "no"}, 7):
        with pytest.raises(BackendUnavailable):
            answers.sequence(wrong, "x")


@pytest.mark.parametrize("shown", [False, 0, "0", "false"])
def test_a_server_that_cannot_be_reached_is_seen_in_any_form(shown: object) -> None:
    application = answers.application(
        {"uuid": "a", "name": "n", "status": "exited:unhealthy", "server_status": shown}
    )
    assert application.state is ContainerState.UNKNOWN


@pytest.mark.parametrize(
    ("id_shown", "deployment", "own"),
    [
        (7, {"application_id": "7"}, True),
        (7, {"application_id": "8", "application_name": "pool-1"}, False),
        (None, {"application_id": "7", "deployment_url": "/x/application/abc/deployment/d"}, True),
        (None, {"deployment_url": "/x/application/abcd/deployment/d"}, False),
        (None, {"deployment_url": "/application/other/deployment/abc"}, False),
        (None, {"application_name": "pool-1"}, True),
    ],
)
def test_a_deployment_is_tied_to_its_application(
    id_shown: int | None, deployment: dict[str, str], own: bool
) -> None:
    fields = {"uuid": "abc", "name": "pool-1", "status": "exited", "id": id_shown}
    content = {"deployment_uuid": "d", "status": "queued", **deployment}
    assert answers.deployment(content).is_of(answers.application(fields)) is own


def order(number: int = 12, **environment: str) -> StartRequest:
    return StartRequest(
        container_id=ContainerId("a"),
        assignment_id=AssignmentId(number),
        correlation_id="",
        environment=environment,
    )


def variables(**values: str) -> list[Variable]:
    return [Variable(key=key, value=value, is_preview=False) for key, value in values.items()]


def test_the_assignment_is_written_last_and_the_former_one_emptied() -> None:
    former = fence.read(
        [
            *variables(
                BOT_DATA="{}",
                TOKEN="old",
                PEOPLES_OWN="kept",
                BOTPOOL_ASSIGNMENT="11",
                BOTPOOL_VARIABLES="BOT_DATA TOKEN",
            ),
            Variable(key="BOTPOOL_ASSIGNMENT", value="99", is_preview=True),
        ]
    )
    assert former.assignment == 11
    written = fence.environment(order(TOKEN="new"), former=former, mark="d7")
    assert list(written.items()) == [
        ("BOTPOOL_VARIABLES", "BOT_DATA TOKEN"),
        ("BOT_DATA", ""),
        ("TOKEN", "new"),
        ("BOTPOOL_START_MARK", "12:d7"),
        ("BOTPOOL_ASSIGNMENT", "12"),
    ]


def test_bot_data_survives_coolifys_quotes() -> None:
    written = fence.environment(
        order(BOT_DATA='{"a": "it\'s $5"}'), former=fence.read([]), mark="none"
    )
    assert written["BOT_DATA"] == '{"a": "it\\u0027s \\u00245"}'


def test_the_fence_refuses_what_was_stopped_or_overtaken() -> None:
    def refuses(number: int, **values: str) -> bool:
        try:
            fence.read(variables(**values)).require_open(ContainerId("a"), AssignmentId(number))
        except StartSuperseded:
            return True
        return False

    assert refuses(12, BOTPOOL_STOPPED_THROUGH="12")
    assert refuses(12, BOTPOOL_STOPPED_THROUGH="13")
    assert refuses(12, BOTPOOL_ASSIGNMENT="13")
    assert not refuses(12, BOTPOOL_ASSIGNMENT="12", BOTPOOL_STOPPED_THROUGH="11")
    assert not refuses(12)


def test_a_mark_of_another_start_is_not_believed() -> None:
    found = fence.read(variables(BOTPOOL_ASSIGNMENT="11", BOTPOOL_START_MARK="12:d7"))
    with pytest.raises(StartSuperseded):
        found.mark_of(ContainerId("a"), AssignmentId(11))


def test_the_oldest_deployment_after_the_mark_is_the_starts_own() -> None:
    newest_first = [
        answers.deployment({"deployment_uuid": uuid, "status": "finished"}) for uuid in "cba"
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
def test_descriptions_are_shown_as_they_are_written(text: str, shown: str) -> None:
    assert shown_as_written(text) == shown


def test_a_followed_log_shows_new_lines_only() -> None:
    assert _overlap([], ["a"]) == 0
    assert _overlap(["a", "b"], ["a", "b", "c"]) == 2
    assert _overlap(["a", "b", "c"], ["b", "c", "d"]) == 2
    assert _overlap(["a", "a"], ["a", "a", "a"]) == 2
    assert _overlap(["a"], ["x", "y"]) == 0


def test_installations_that_differ_in_case_have_different_tags() -> None:
    tags = {config(name).tag for name in ("prod", "Prod", "PROD")}
    assert len(tags) == 3
    assert config("prod").tag == "botpool-prod"
    assert all(tag == tag.lower() for tag in tags)


def test_the_token_is_in_no_repr() -> None:
    assert "1|emulated" not in repr(config())

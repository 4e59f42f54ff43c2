"""Checks of incidents that Botpool has recorded in the database."""

from collections.abc import AsyncIterator, Sequence

from botpool.domain.errors import BotpoolError
from botpool.domain.pacing import Breaker, EgressState
from botpool.engine.maintenance.doctor.findings import Check, Finding
from botpool.store.clock import ClockJump, get_clock_jump
from botpool.store.database_epochs import DatabaseEpoch, get_database_epoch
from botpool.store.doctor import (
    PromotedImage,
    UnconfirmedSlot,
    list_promoted_images,
    list_silent_pools,
    list_unconfirmed_slots,
)
from botpool.store.pacing import list_egresses
from botpool.store.readonly_connection import ReadonlyConnection

_DAY_S = 86_400.0

EPOCH = Check(
    name="database_epoch",
    meaning="the database was not restored, promoted or copied in the last day",
    remedy="Compare your records with 'botpool bot list': changes of the lost time are missing, "
    "and bots that had ended may run again. Give a copy beside the original its own "
    "installation.id and installation.secret.",
)

SILENCE = Check(
    name="mass_silence",
    meaning="in no pool most bots are silent",
    remedy="Check that containers reach server.public_url: proxy, load balancer, DNS, certificate. "
    "Bots that stay silent for two windows (recovery.heartbeat_freshness_s) fail.",
)

CLOCK_JUMP = Check(
    name="clock_jump",
    meaning="the database's clock has not jumped in the last day",
    remedy="Let NTP slew the clock of the database's server instead of stepping it. A jump forward "
    "lets queued bots expire and ends bots at their maximum duration too early.",
)

BREAKERS = Check(
    name="circuit_breaker",
    meaning="no circuit breaker stops the starts of an egress",
    remedy="Meeting platforms blocked bots that leave with this address. Lower "
    "pacing.per_minute, or let bots leave with another address. A probe closes "
    "the breaker when it is admitted.",
)

UNCONFIRMED_STOPS = Check(
    name="unconfirmed_stops",
    meaning="the stop of every released container can be confirmed",
    remedy="No bot gets these slots, because their containers may still run. Bring the node back. "
    "If the node is dead, taint it with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute; "
    "Botpool then frees the slots. 'botpool slot release --force' frees one slot at your own risk.",
)

PROMOTED_IMAGES = Check(
    name="promoted_image",
    meaning="the settings name the image of every pool",
    remedy="A rollout promoted this image, and it overrides the settings until they change. Write "
    "it into pools.<platform>.image.",
)

CHECKS = (EPOCH, SILENCE, CLOCK_JUMP, BREAKERS, UNCONFIRMED_STOPS, PROMOTED_IMAGES)
_SHOWN = 5


def epoch_finding(epoch: DatabaseEpoch | None) -> Finding:
    """Report a epoch that began lately, or that has begun without a replica."""
    if epoch is None:
        return EPOCH.ok("no replica has used this database yet")
    if epoch.evidence is not None:
        return EPOCH.warning(f"{epoch.evidence}; the next replica begins a new epoch")
    found = f"epoch {epoch.number}, since {epoch.began_at:%Y-%m-%dT%H:%M:%SZ}"
    if epoch.number > 1 and epoch.age_s < _DAY_S:
        return EPOCH.warning(f"{found}: {epoch.reason}")
    return EPOCH.ok(found)


def clock_finding(jump: ClockJump | None) -> Finding:
    """Report a jump of the last day; its time may lie ahead if the clock was set back again."""
    if jump is None or jump.age_s > _DAY_S:
        return CLOCK_JUMP.ok()
    direction = "forward" if jump.seconds > 0 else "back"
    found = (
        f"{abs(jump.seconds):.0f} s {direction}, noticed at {jump.noticed_at:%Y-%m-%dT%H:%M:%SZ}"
    )
    return CLOCK_JUMP.warning(found)


def breaker_finding(egresses: Sequence[EgressState]) -> Finding:
    """Report the egresses whose circuit breaker is not closed."""
    found = [
        f"{each.egress}: {each.breaker.replace('_', ' ')} after {each.blocks_in_a_row} blocks in a "
        f"row, next probe at {each.probe_at:%Y-%m-%dT%H:%M:%SZ}"
        for each in egresses
        if each.breaker is not Breaker.CLOSED
    ]
    return BREAKERS.warning(", ".join(found)) if found else BREAKERS.ok()


def unconfirmed_finding(stops: Sequence[UnconfirmedSlot]) -> Finding:
    """Report the slots whose stop cannot be confirmed, with the node and the time."""
    found = [
        f"{each.slot_name}: {each.reason} since {each.since:%Y-%m-%dT%H:%M:%SZ}"
        for each in stops[:_SHOWN]
    ]
    if len(stops) > _SHOWN:
        found.append(f"{len(stops) - _SHOWN} more")
    if not found:
        return UNCONFIRMED_STOPS.ok()
    return UNCONFIRMED_STOPS.warning(", ".join(found))


def promoted_finding(promoted: Sequence[PromotedImage]) -> Finding:
    """Report the pools whose promoted image overrides the settings."""
    found = [
        f"{each.pool_name} has {each.image}, the settings name {each.configured_image}"
        for each in promoted
    ]
    return PROMOTED_IMAGES.warning("; ".join(found)) if found else PROMOTED_IMAGES.ok()


async def check_incidents(connection: ReadonlyConnection) -> AsyncIterator[Finding]:
    """Report the recorded incidents."""
    try:
        yield epoch_finding(await get_database_epoch(connection))
    except BotpoolError as error:
        yield EPOCH.not_checked(error)
    try:
        silent = [
            f"{each.pool_name} since {each.silence_alarm_at:%Y-%m-%dT%H:%M:%SZ}"
            for each in await list_silent_pools(connection)
        ]
        yield SILENCE.warning(", ".join(silent)) if silent else SILENCE.ok()
    except BotpoolError as error:
        yield SILENCE.not_checked(error)
    try:
        yield clock_finding(await get_clock_jump(connection))
    except BotpoolError as error:
        yield CLOCK_JUMP.not_checked(error)
    try:
        yield breaker_finding(await list_egresses(connection))
    except BotpoolError as error:
        yield BREAKERS.not_checked(error)
    try:
        yield unconfirmed_finding(await list_unconfirmed_slots(connection))
    except BotpoolError as error:
        yield UNCONFIRMED_STOPS.not_checked(error)
    try:
        yield promoted_finding(await list_promoted_images(connection))
    except BotpoolError as error:
        yield PROMOTED_IMAGES.not_checked(error)

"""The warm floors of a pool: the slots that Botpool keeps ready, and when."""

import json
import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from botpool.domain.communication import Protocol
from botpool.domain.errors import SettingError
from botpool.domain.warm import Warm, WarmWindow
from botpool.domain.warm_target import check_time_zone
from botpool.settings.declaration import Section, setting
from botpool.settings.value_types import Seconds, SecondsOrZero

if TYPE_CHECKING:
    from botpool.settings.sections import PoolSettings

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def parse_days(value: str) -> tuple[int, ...]:
    """Parse days of the week, such as `Mon-Fri` or `Mon, Wed`; 0 is Monday."""
    days: set[int] = set()
    for part in value.split(","):
        ends = [end.strip().capitalize() for end in part.split("-")]
        if len(ends) > 2 or any(end not in _DAYS for end in ends):
            raise ValueError("should be days of the week, such as Mon-Fri or Mon, Wed")
        first, last = _DAYS.index(ends[0]), _DAYS.index(ends[-1])
        days |= {day % 7 for day in range(first, last + (7 if last < first else 0) + 1)}
    return tuple(sorted(days))


def _days(value: str) -> str:
    parse_days(value)
    return value


def _time_of_day(value: str) -> str:
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
        raise ValueError("should be a time of day, such as 08:50")
    return value


def _parse_windows(value: Any) -> Any:
    """Parse windows from an environment variable: a JSON list."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError("should be a list of tables, or a JSON list in a variable") from None


_Slots = Annotated[int, Field(ge=0, le=100_000)]
_TimeOfDay = Annotated[str, AfterValidator(_time_of_day)]


class WindowSettings(Section):
    """One window of a pool's warm floors."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    days: Annotated[str, AfterValidator(_days)] = "Mon-Sun"
    starts: _TimeOfDay = Field(alias="from")
    ends: _TimeOfDay = Field(alias="to")
    timezone: Annotated[str, AfterValidator(check_time_zone)] = "UTC"
    hot: _Slots = 0
    idle: _Slots = 0


_EXAMPLE_WINDOW = {
    "days": "Mon-Fri",
    "from": "08:50",
    "to": "18:00",
    "timezone": "Europe/Berlin",
    "hot": 20,
}


class WarmSettings(Section):
    """The slots that a pool keeps ready for bots that have not arrived yet."""

    hot: _Slots = setting(0, example=10, unit="slots")
    """How many slots run their container without a bot, so that a bot joins at once. Needs the
    agent of Botpool in the container (`protocol = "botpool"`)."""
    idle: _Slots = setting(0, example=20, unit="slots")
    """How many idle slots have a container with the image on disk; hot slots count too. If the
    image is not on disk yet, one container starts without a bot and pulls it. That needs the agent
    of Botpool; in other pools the first bot pulls the image."""
    windows: Annotated[
        tuple[WindowSettings, ...], BeforeValidator(_parse_windows), Field(max_length=100)
    ] = setting((), example=[_EXAMPLE_WINDOW])
    """Times of the week with other values of `hot` and `idle`, in local time. Where windows
    overlap, the highest value applies."""
    ahead_of_schedule: bool = setting(False, example=True)
    """Whether scheduled bots raise `hot` in time for their start; in a pool whose containers cannot
    wait for a bot, they raise `idle`."""
    max_age_s: Seconds = setting(3_600, example=7_200)
    """After how long Botpool replaces a container that still waits for its bot."""
    idle_ttl_s: SecondsOrZero = setting(0, example=86_400)
    """After how long without a bot Botpool removes idle slots above `idle`; 0 means never."""
    refill_per_minute: Annotated[float, Field(gt=0, le=60_000)] = setting(
        600, example=60, unit="slots per minute"
    )
    """How many containers a minute Botpool starts or creates to keep `hot` and `idle`. A burst of
    bots does not change this rate, and bots that wait for a slot go first."""
    handover_timeout_s: Annotated[float, Field(ge=0.1, le=600)] = setting(3, example=5)
    """How long a waiting container may take to accept its bot. Then Botpool stops this container
    and starts the bot in a new one."""


def warm_of(pool: "PoolSettings") -> Warm:
    """Return the warm floors as the engine uses them."""
    settings, can_wait = pool.warm, pool.protocol is Protocol.BOTPOOL and not _names_a_bot(pool)
    return Warm(
        hot=settings.hot,
        idle=settings.idle,
        windows=tuple(
            WarmWindow(
                days=parse_days(window.days),
                starts=window.starts,
                ends=window.ends,
                timezone=window.timezone,
                hot=window.hot,
                idle=window.idle,
            )
            for window in settings.windows
        ),
        ahead_of_schedule=settings.ahead_of_schedule,
        max_age_s=settings.max_age_s,
        idle_ttl_s=settings.idle_ttl_s,
        refill_per_minute=settings.refill_per_minute,
        can_wait=can_wait,
        handover_timeout_s=settings.handover_timeout_s,
    )


def check_warm(pool_name: str, pool: "PoolSettings") -> None:
    """Raise SettingError for warm floors that cannot work."""
    warm, section = warm_of(pool), f"pools.{pool_name}.warm"
    if warm.highest_hot and pool.protocol is not Protocol.BOTPOOL:
        raise SettingError(
            f"{section}.hot",
            f'needs protocol = "botpool", but pools.{pool_name}.protocol is "{pool.protocol}": '
            "only the agent of Botpool or `botpool-agent run` can wait for a bot",
        )
    if warm.highest_hot and _names_a_bot(pool):
        raise SettingError(
            f"{section}.hot",
            f"does not work with a placeholder of the bot in pools.{pool_name}.command or "
            "entrypoint: the container starts before it has a bot",
        )
    for name, slots in (("hot", warm.highest_hot), ("idle", warm.highest_idle)):
        if slots > pool.max_size:
            problem = f"is {slots}, above pools.{pool_name}.max_size ({pool.max_size})"
            raise SettingError(f"{section}.{name}", problem)


def _names_a_bot(pool: "PoolSettings") -> bool:
    """Whether the container's command needs a bot: it has a placeholder of one."""
    return any("{bot" in text for text in (*pool.command, *pool.entrypoint))

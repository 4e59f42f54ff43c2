"""The environment, secrets, command and entrypoint of a pool: types, rules, and their values.

The settings name only where a secret is: an environment variable or a file of the replica. The
value is read when a replica starts, and is kept in its memory only.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from botpool.domain.communication import Outcome, Protocol
from botpool.domain.container_template import KNOWN, ContainerTemplate, unknown_placeholders
from botpool.domain.errors import SettingError
from botpool.settings.value_types import parse_table, split_like_a_shell

if TYPE_CHECKING:
    from botpool.settings.sections import PoolSettings

_OWN = frozenset(
    {
        "BOTPOOL_URL",
        "BOTPOOL_TOKEN",
        "BOTPOOL_STANDBY_TOKEN",
        "BOTPOOL_CONTAINER_ID",
        "BOTPOOL_WAIT_FOR_STOP_S",
        "BOTPOOL_SELF_FENCE_S",
    }
)
_MAX_SECRET_BYTES = 64 * 1024


def _variable_name(value: str) -> str:
    if not value.replace("_", "a").isalnum() or not value.isascii() or value[0].isdigit():
        raise ValueError("should be the name of an environment variable")
    return value


def _secret_source(value: str) -> str:
    if value.startswith("/"):
        return value
    try:
        return _variable_name(value)
    except ValueError:
        raise ValueError(
            "should name an environment variable or the absolute path of a file of the replica, "
            "not the secret itself"
        ) from None


Arguments = Annotated[tuple[str, ...], BeforeValidator(split_like_a_shell), Field(max_length=1000)]
Variables = Annotated[dict[str, str], BeforeValidator(parse_table)]
Secrets = Annotated[
    dict[str, Annotated[str, Field(min_length=1), AfterValidator(_secret_source)]],
    BeforeValidator(parse_table),
]


def check_program(pool_name: str, pool: "PoolSettings") -> None:
    """Raise SettingError for the first setting of the pool's program that cannot work."""
    for setting, text in _texts(pool_name, pool):
        for placeholder in unknown_placeholders(text):
            raise SettingError(
                setting, f"has the unknown placeholder {placeholder}; known are {KNOWN}"
            )
    for table, names in (("env", pool.env), ("secrets", pool.secrets)):
        for name in names:
            _check_name(f"pools.{pool_name}.{table}.{name}", name)
    for name in pool.secrets.keys() & pool.env.keys():
        raise SettingError(f"pools.{pool_name}.env.{name}", "is also one of the pool's secrets")
    if pool.protocol is Protocol.NONE and pool.outcome is not Outcome.EXIT_CODE:
        raise SettingError(
            f"pools.{pool_name}.outcome",
            'must be "exit-code" with protocol "none": nothing reports',
        )
    if pool.backend == "coolify":
        _check_coolify(pool_name, pool)


def template_of(pool_name: str, pool: "PoolSettings") -> ContainerTemplate:
    """Read the secrets and return the pool's template, or raise SettingError for a missing one."""
    return ContainerTemplate(
        env=pool.env,
        secrets={
            name: _read_secret(f"pools.{pool_name}.secrets.{name}", source)
            for name, source in pool.secrets.items()
        },
        command=pool.command,
        entrypoint=pool.entrypoint,
        protocol=pool.protocol,
    )


def _texts(pool_name: str, pool: "PoolSettings") -> Iterator[tuple[str, str]]:
    """Yield the texts that may contain placeholders, each with the name of its setting."""
    for name, text in pool.env.items():
        yield f"pools.{pool_name}.env.{name}", text
    for text in pool.command:
        yield f"pools.{pool_name}.command", text
    for text in pool.entrypoint:
        yield f"pools.{pool_name}.entrypoint", text


def _check_name(setting: str, name: str) -> None:
    try:
        _variable_name(name)
    except ValueError:
        raise SettingError(
            setting, "is not the name of an environment variable: use letters, digits and _"
        ) from None
    if name in _OWN:
        raise SettingError(setting, "is a variable that Botpool sets itself")


def _check_coolify(pool_name: str, pool: "PoolSettings") -> None:
    if pool.outcome is Outcome.EXIT_CODE:
        raise SettingError(
            f"pools.{pool_name}.outcome",
            '"exit-code" does not work on Coolify, which restarts every container that ends. Run '
            'the bot with `botpool-agent run`, which reports its end, and keep outcome "report"',
        )
    for name in ("command", "entrypoint"):
        if getattr(pool, name):
            problem = "cannot be set on Coolify; make it part of the image"
            raise SettingError(f"pools.{pool_name}.{name}", problem)


def _read_secret(setting: str, source: str) -> str:
    if not source.startswith("/"):
        value = os.environ.get(source)
        if not value:
            problem = f"names the environment variable {source}, which this replica does not have"
            raise SettingError(setting, problem)
        return value
    try:
        content = Path(source).read_bytes()
        text = content.decode().removesuffix("\n")
    except OSError as error:
        raise SettingError(setting, f"{source} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingError(setting, f"{source} is not text in UTF-8") from None
    if not text or "\0" in text or len(content) > _MAX_SECRET_BYTES:
        problem = f"{source} should hold a secret of 1 to {_MAX_SECRET_BYTES} bytes of text"
        raise SettingError(setting, problem)
    return text


def templates_of(pools: Mapping[str, "PoolSettings"]) -> Mapping[str, ContainerTemplate]:
    """Return the template of each pool."""
    return {name: template_of(name, pool) for name, pool in pools.items()}

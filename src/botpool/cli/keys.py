"""`botpool key`: API keys, created in the database itself.

An installation's first key cannot be created through the API, which needs a key. Anyone with the
settings of the database can create one here; the server need not run.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from botpool.cli import output
from botpool.cli.database import with_database
from botpool.cli.durations import ExpiresOption, OverlapOption
from botpool.cli.errors import UsageError, print_notice
from botpool.cli.options import ConfigOption, DataDirOption, JsonOption
from botpool.domain.callers import LOWEST_PRIORITY

if TYPE_CHECKING:
    from datetime import datetime

    from rich.table import Table
    from rich.text import Text

    from botpool.domain.tenants import ApiKey
    from botpool.engine.api_keys import ApiKeys
    from botpool.store.database import Database

T = TypeVar("T")
KeyArgument = Annotated[int, typer.Argument(metavar="KEY", min=1, help="The key's id, as listed.")]
_LONGEST_NAME = 100
_NAME_SHOWN = 32


def create(
    name: Annotated[
        str, typer.Option(help="A name for the key's user; lists and the audit log show it.")
    ],
    scope: Annotated[
        Literal["user", "operator", "admin"],
        typer.Option(help="user: bots; operator: also slots and pools; admin: also keys."),
    ] = "user",
    tenant: Annotated[
        str, typer.Option(metavar="NAME", help="The owner of the bots that the key creates.")
    ] = "default",
    lifetime_s: ExpiresOption = None,
    min_priority: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=LOWEST_PRIORITY,
            max=-LOWEST_PRIORITY,
            show_default=False,
            help="The lowest priority number of its bots; lower goes first. Default: 0 for "
            "scope user, else none.",
        ),
    ] = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an API key and print it. It cannot be shown again.

    A key of scope user sees only the bots of its tenant; operators and admins see all tenants.

    \b
    botpool key create --name ci
    botpool key create --name contractor --expires 90d
    botpool key create --name sales-bot --tenant sales
    export BOTPOOL_API_KEY=$(botpool key create --name ops --scope operator)
    """
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        raise UsageError(f"--name: must have 1 to {_LONGEST_NAME} printable characters")
    key, text = with_database(
        config,
        data_dir,
        lambda database: _create(database, name, scope, tenant, lifetime_s, min_priority),
    )
    if as_json:
        _write({"key": _as_json(key), "secret": text})
    else:
        owner = "" if tenant == "default" else f" of tenant {tenant}"
        print_notice(f"created key {key.id} ({scope}){owner}; it cannot be shown again")
        typer.echo(text)


async def _create(
    database: "Database",
    name: str,
    scope: str,
    tenant: str,
    lifetime_s: float | None,
    min_priority: int | None,
) -> "tuple[ApiKey, str]":
    from botpool.engine.api_keys import ApiKeys
    from botpool.engine.tenants import Tenants

    tenant_id = await Tenants(database).id_of(tenant)
    return await ApiKeys(database).create(
        name, scope, tenant_id=tenant_id, lifetime_s=lifetime_s, min_priority=min_priority
    )


def rotate(
    key: KeyArgument,
    overlap_s: OverlapOption = "1d",  # type: ignore[assignment] # typer parses the default, too
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a key a new text and print it.

    The former text works until the overlap ends.

    The key keeps its id, its dashboard sessions and its idempotency keys.

    \b
    botpool key rotate 3
    botpool key rotate 3 --overlap 0s      # the former text leaked
    """
    rotated, text = _with_keys(config, data_dir, lambda keys: keys.rotate(key, overlap_s=overlap_s))
    if as_json:
        _write({"key": _as_json(rotated), "secret": text})
    else:
        ends_at = rotated.overlap_ends_at
        print_notice(f"rotated key {rotated.id}; the former text is valid until {ends_at:%F %TZ}")
        typer.echo(text)


def list_(
    config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False
) -> None:
    """List all keys, without their secrets.

    \b
    botpool key list
    """
    found = _with_keys(config, data_dir, lambda keys: keys.list_all())
    if as_json:
        _write({"keys": [_as_json(key) for key in found]})
    elif found:
        output.show(_table(found))
    else:
        output.show("No keys. Create one with 'botpool key create --name NAME'.")


def revoke(
    key: KeyArgument,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key. Servers refuse it within ten seconds.

    \b
    botpool key revoke 3
    """
    revoked = _with_keys(config, data_dir, lambda keys: keys.revoke(key))
    if as_json:
        _write(_as_json(revoked))
    else:
        output.show(
            f"Key {revoked.id} ({revoked.name}) is revoked; servers refuse it within ten seconds."
        )


def _table(listed: "Sequence[ApiKey]") -> "Table":
    from datetime import UTC, datetime

    from rich.text import Text

    from botpool.cli.formatting import list_table, shortened
    from botpool.cli.times import ago

    several = any(key.tenant != "default" for key in listed)
    names = ("ID", "NAME", "SCOPE", *(["TENANT"] if several else []))
    columns = (*names, "BEGINS WITH", "LAST USED", "PRIORITY FROM", "STATE")
    table = list_table(*columns, right="ID")
    now = datetime.now(UTC)
    for key in listed:
        table.add_row(
            str(key.id),
            Text(shortened(key.name, _NAME_SHOWN)),
            key.scope,
            *([key.tenant] if several else []),
            key.prefix,
            ago(key.last_used_at, now),
            "any" if key.min_priority == LOWEST_PRIORITY else str(key.min_priority),
            _state(key, now),
        )
    return table


def _state(key: "ApiKey", now: "datetime") -> "Text":
    from rich.text import Text

    from botpool.cli.times import ago, until

    if key.revoked_at:
        return Text(f"revoked {ago(key.revoked_at, now)}", style="dim")
    if key.expires_at is None:
        return Text("valid", style="green")
    if key.expires_at <= now:
        return Text(f"expired {ago(key.expires_at, now)}", style="dim")
    return Text(f"expires {until(key.expires_at, now)}", style="green")


def _write(response: Mapping[str, object]) -> None:
    """Print the response of the API for the same request."""
    output.write_json(json.dumps(response, ensure_ascii=False).encode())


def _as_json(key: "ApiKey") -> dict[str, object]:
    from botpool.api.key_schemas import Key

    return Key.of(key).model_dump(mode="json", by_alias=True)


def _with_keys(
    config: Path | None, data_dir: Path | None, work: "Callable[[ApiKeys], Awaitable[T]]"
) -> T:
    """Call `work` with the keys in the database of the settings."""
    from botpool.engine.api_keys import ApiKeys

    return with_database(config, data_dir, lambda database: work(ApiKeys(database)))

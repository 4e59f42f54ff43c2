"""`botpool key`: API keys, made in the database itself.

The first key of an installation cannot be asked for with a key. Whoever can reach the database by
the settings may make one; the server need not run.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from botpool.cli import output
from botpool.cli.connection import ConfigOption, DataDirOption, JsonOption
from botpool.cli.errors import UsedWrongly, say

if TYPE_CHECKING:
    from botpool.api.schemas import Model
    from botpool.engine.api_keys import ApiKeys

T = TypeVar("T")
_LONGEST_NAME = 100


class Scope(StrEnum):
    """Each includes those before it."""

    USER = "user"
    OPERATOR = "operator"
    ADMIN = "admin"


def create(
    name: Annotated[str, typer.Option(help="Who will use it, for the list of keys.")],
    scope: Annotated[
        Scope, typer.Option(help="user: bots; operator: also slots and pools; admin: also keys.")
    ] = Scope.USER,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an API key and print it, this once.

    \b
    botpool key create --name ci
    export BOTPOOL_API_KEY=$(botpool key create --name ops --scope operator)
    """
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        raise UsedWrongly("--name", f"must have 1 to {_LONGEST_NAME} printable characters")
    key, text = _with_keys(config, data_dir, lambda keys: keys.create(name, scope))
    if as_json:
        from botpool.api import schemas

        _write(schemas.NewKey(key=schemas.Key.model_validate(key), secret=text))
    else:
        say(f"key {key.id} ({scope}) was made; it is shown this once")
        typer.echo(text)


def list_(
    config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False
) -> None:
    """List all keys, by what may be shown of them.

    \b
    botpool key list
    """
    found = _with_keys(config, data_dir, lambda keys: keys.list_all())
    if as_json:
        from botpool.api import schemas

        _write(schemas.Keys(keys=[schemas.Key.model_validate(key) for key in found]))
        return
    from botpool.cli import tables

    if found:
        output.show(tables.keys(found))
    else:
        output.show("No keys. Make one with 'botpool key create --name NAME'.")


def revoke(
    key: Annotated[int, typer.Argument(metavar="KEY", min=1, help="The key's id, as listed.")],
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a key. Servers notice within ten seconds.

    \b
    botpool key revoke 3
    """
    ended = _with_keys(config, data_dir, lambda keys: keys.revoke(key))
    if as_json:
        from botpool.api import schemas

        _write(schemas.Key.model_validate(ended))
    else:
        typer.echo(f"Key {ended.id} ({ended.name}) is revoked; servers notice within ten seconds.")


def _write(answer: "Model") -> None:
    """As the API would answer."""
    output.write_json(answer.model_dump_json(by_alias=True).encode())


def _with_keys(
    config: Path | None, data_dir: Path | None, work: "Callable[[ApiKeys], Awaitable[T]]"
) -> T:
    import asyncio

    from botpool.cli.serving import database_url
    from botpool.settings import load_settings

    async def run(url: str) -> T:
        async with _keys_in(url) as keys:
            return await work(keys)

    settings = load_settings(config, {"data_dir": data_dir})
    with database_url(settings) as url:
        return asyncio.run(run(url))


@asynccontextmanager
async def _keys_in(url: str) -> "AsyncIterator[ApiKeys]":
    import psycopg

    from botpool.domain.errors import DatabaseUnavailable
    from botpool.engine.api_keys import ApiKeys
    from botpool.store.database import Database
    from botpool.store.migrations import check_schema

    database = Database(url, max_connections=2)
    try:
        # Asked first: the pool would try for long and then say only that it has no connection.
        await (await database.listener()).close()
        await database.open()
        check_schema(await database.applied_migrations())
        yield ApiKeys(database)
    except psycopg.Error as error:
        raise DatabaseUnavailable(str(error)) from error
    finally:
        await database.close()

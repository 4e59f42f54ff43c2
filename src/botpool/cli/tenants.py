"""`botpool tenant`: tenants, created and changed in the database itself, like keys."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from botpool.cli import output
from botpool.cli.database import with_database
from botpool.cli.errors import UsageError
from botpool.cli.options import ConfigOption, DataDirOption, JsonOption

if TYPE_CHECKING:
    from rich.table import Table

    from botpool.domain.tenants import Tenant, TenantChanges
    from botpool.engine.tenants import Tenants

T = TypeVar("T")
_NAME = "[a-z0-9][a-z0-9-]{0,39}"
_NONE = "none"
_MAX_WEIGHT = 1000
_INT32 = 2**31 - 1


def _limit(text: str) -> int | str:
    """Read a quota: a number, or `none`."""
    if text.strip().lower() == _NONE:
        return _NONE
    if not re.fullmatch("[0-9]{1,10}", text, re.ASCII) or int(text) > _INT32:
        raise typer.BadParameter(f"{text!r} is neither a number nor 'none'")
    return int(text)


NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tenant's name.")]
WeightOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=_MAX_WEIGHT,
        metavar="N",
        help="Share of a pool's slots while several tenants wait: 2 gets twice as many as 1.",
    ),
]
MaxLiveOption = Annotated[
    str | None,
    typer.Option(
        parser=_limit,
        metavar="N|none",
        help="Bots in slots at the same time, in all pools; further bots wait in the queue.",
    ),
]
MaxQueuedOption = Annotated[
    str | None,
    typer.Option(
        parser=_limit,
        metavar="N|none",
        help="Bots in queues at the same time; further requests get a 429.",
    ),
]
MaxBookedOption = Annotated[
    str | None,
    typer.Option(
        parser=_limit,
        metavar="N|none",
        help="Slots reserved for the same time. Default and at most: --max-live",
    ),
]
PostsOption = Annotated[
    str | None,
    typer.Option(
        parser=_limit,
        metavar="N|none",
        help="Requests for bots in a minute; further requests get a 429.",
    ),
]


def create(
    name: NameArgument,
    weight: WeightOption = None,
    max_live: MaxLiveOption = None,
    max_queued: MaxQueuedOption = None,
    max_booked: MaxBookedOption = None,
    posts_per_minute: PostsOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a tenant. Then create keys for it with 'botpool key create --tenant NAME'.

    \b
    botpool tenant create sales
    botpool tenant create research --weight 2 --max-live 20 --max-queued 200
    """
    if not re.fullmatch(_NAME, name, re.ASCII):
        raise UsageError("NAME: must be lower-case letters, digits and hyphens, at most 40")
    values = _changes(weight, max_live, max_queued, max_booked, posts_per_minute)
    created = _with_tenants(config, data_dir, lambda tenants: tenants.create(name, **values))
    _show(created, as_json, f"Tenant {created.name} is created.")


def set_(
    name: NameArgument,
    weight: WeightOption = None,
    max_live: MaxLiveOption = None,
    max_queued: MaxQueuedOption = None,
    max_booked: MaxBookedOption = None,
    posts_per_minute: PostsOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the weight and the quotas of a tenant.

    The value 'none' removes a quota.

    A lower quota ends no bot. Above --max-live, new bots wait in the queue until bots of the tenant
    end; above --max-queued or --posts-per-minute, new requests are refused.

    \b
    botpool tenant set sales --max-live 50
    botpool tenant set sales --posts-per-minute none
    """
    changes = _changes(weight, max_live, max_queued, max_booked, posts_per_minute)
    if not changes:
        raise UsageError(
            "name at least one of --weight, --max-live, --max-queued, --max-booked, "
            "--posts-per-minute"
        )
    changed = _with_tenants(config, data_dir, lambda tenants: tenants.change(name, changes))
    _show(changed, as_json, f"Tenant {changed.name} is changed.")


def list_(
    config: ConfigOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False
) -> None:
    """List all tenants with their quotas and their bots.

    \b
    botpool tenant list
    """
    found = _with_tenants(config, data_dir, lambda tenants: tenants.list_all())
    if as_json:
        _write({"tenants": [_as_json(tenant) for tenant in found]})
    else:
        output.show(_table(found))


def _changes(
    weight: int | None,
    max_live: int | str | None,
    max_queued: int | str | None,
    max_booked: int | str | None,
    posts_per_minute: int | str | None,
) -> "TenantChanges":
    """Return the values that the options name."""
    changes: TenantChanges = {}
    if weight is not None:
        changes["weight"] = weight
    if max_live is not None:
        changes["max_live"] = _number(max_live)
    if max_queued is not None:
        changes["max_queued"] = _number(max_queued)
    if max_booked is not None:
        changes["max_booked"] = _number(max_booked)
    if posts_per_minute is not None:
        if posts_per_minute == 0:
            raise UsageError("--posts-per-minute: must be at least 1, or 'none'")
        changes["posts_per_minute"] = _number(posts_per_minute)
    return changes


def _number(limit: int | str) -> int | None:
    return limit if isinstance(limit, int) else None


def _show(tenant: "Tenant", as_json: bool, sentence: str) -> None:
    if as_json:
        _write({"tenant": _as_json(tenant)})
    else:
        output.show(sentence)


def _table(listed: "Sequence[Tenant]") -> "Table":
    from botpool.cli.formatting import list_table

    figures = ("WEIGHT", "LIVE", "QUEUED", "POSTS PER MINUTE")
    table = list_table("NAME", *figures, right=" ".join(figures[:3]))
    for tenant in listed:
        table.add_row(
            tenant.name,
            str(tenant.weight),
            _count_of_limit(tenant.live, tenant.max_live),
            _count_of_limit(tenant.queued, tenant.max_queued),
            "-" if tenant.posts_per_minute is None else f"at most {tenant.posts_per_minute}",
        )
    return table


def _count_of_limit(bots: int, limit: int | None) -> str:
    return str(bots) if limit is None else f"{bots}/{limit}"


def _write(response: object) -> None:
    """Print the response of the API for the same request."""
    output.write_json(json.dumps(response, ensure_ascii=False).encode())


def _as_json(tenant: "Tenant") -> dict[str, object]:
    from botpool.api.tenant_schemas import Tenant as Model

    return Model.of(tenant).model_dump(mode="json", by_alias=True)


def _with_tenants(
    config: Path | None, data_dir: Path | None, work: "Callable[[Tenants], Awaitable[T]]"
) -> T:
    """Call `work` with the tenants in the database of the settings."""
    from botpool.engine.tenants import Tenants

    return with_database(config, data_dir, lambda database: work(Tenants(database)))

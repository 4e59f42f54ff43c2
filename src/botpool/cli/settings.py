"""`botpool settings`: the value of each setting, and its source."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli import output
from botpool.cli.errors import UsageError
from botpool.cli.options import ConfigOption, DataDirOption

if TYPE_CHECKING:
    from rich.table import Table

    from botpool.settings import EffectiveSetting

NameArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", show_default=False, help="A setting or a section, to show it in full."
    ),
]
_NO_DATABASE = "\nThe database does not answer: images that a rollout promoted are not shown."
SettingsJsonOption = Annotated[bool, typer.Option("--json", help="Print the settings as JSON.")]


def settings(
    name: NameArgument = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: SettingsJsonOption = False,
) -> None:
    """Show each setting's value and its source.

    Sources are the default, the file, the environment, options, and for a pool's image a promoted
    rollout, if the database answers.

    Secrets are masked. With a NAME, the output also has the description, the default, the
    environment variable and an example.

    \b
    botpool settings
    botpool settings backends.coolify
    botpool settings queue.max_timeout_ms --config /etc/botpool.toml
    """
    from botpool.cli.promoted_images import read_promoted_images, with_promoted_images
    from botpool.settings import effective_settings, load_settings

    overrides = {"data_dir": data_dir}
    found = effective_settings(config, overrides)
    promoted = read_promoted_images(load_settings(config, overrides))
    if promoted is not None:
        found = with_promoted_images(found, promoted)
    if name is not None:
        found = _matching(found, name)
    if as_json:
        output.write_json(json.dumps({"settings": [_as_json(each) for each in found]}).encode())
    elif name is None:
        output.show(_table(found), *([] if promoted is not None else [_NO_DATABASE]))
    else:
        output.show(*(_details(each) for each in found))


def _matching(found: "Sequence[EffectiveSetting]", name: str) -> "list[EffectiveSetting]":
    """Select the setting or the settings of the section with this name."""
    from difflib import get_close_matches

    matching = [each for each in found if f"{each.setting.name}.".startswith(f"{name}.")]
    if not matching:
        names = {each.setting.name for each in found}
        names |= {each.rpartition(".")[0] for each in names}
        close = get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else "'botpool settings' lists all of them"
        raise UsageError(f"{name}: is not a setting; {hint}")
    return matching


def _table(found: "Sequence[EffectiveSetting]") -> "Table":
    """List the settings under their sections, as in `botpool.toml`."""
    from rich.text import Text

    from botpool.cli.formatting import list_table
    from botpool.settings.effective import DEFAULT

    table = list_table("SETTING", "VALUE", "FROM", wrap="VALUE FROM")
    section = ""
    for each in found:
        *parents, name = each.setting.path
        if section != ".".join(parents):
            section = ".".join(parents)
            table.add_row()
            table.add_row(Text(f"[{section}]", style="bold"))
        style = "dim" if each.origin == DEFAULT else ""
        table.add_row(name, _text(each, each.value), Text(each.origin, style=style))
    return table


def _details(each: "EffectiveSetting") -> "Table":
    from botpool.cli.formatting import detail_table

    table = detail_table()
    table.add_row("setting", each.setting.name)
    table.add_row("", each.setting.description)
    table.add_row("value", _text(each, each.value))
    table.add_row("from", each.origin)
    table.add_row("default", _text(each, each.default))
    table.add_row("variable", each.setting.variable)
    table.add_row("example", f"{each.setting.path[-1]} = {json.dumps(each.setting.example)}")
    table.add_row()
    return table


def _text(each: "EffectiveSetting", value: object) -> str:
    from botpool.cli.formatting import NONE, sanitised

    if value in (None, []):
        return NONE
    text = sanitised(value) if isinstance(value, str) else json.dumps(value)
    return f"{text} {each.setting.unit}" if each.setting.unit else text


def _as_json(each: "EffectiveSetting") -> dict[str, object]:
    return {
        "name": each.setting.name,
        "value": each.value,
        "unit": each.setting.unit,
        "from": each.origin,
        "default": each.default,
        "environment": each.setting.variable,
        "example": each.setting.example,
        "description": each.setting.description,
    }

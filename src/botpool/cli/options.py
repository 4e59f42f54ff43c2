"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", envvar="BOTPOOL_CONFIG", metavar="FILE", help="The settings file."),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The directory of the embedded database and its API key. Default: .botpool/",
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        envvar="BOTPOOL_URL", metavar="URL", help="The server. Default: from the settings"
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        envvar="BOTPOOL_API_KEY",
        metavar="KEY",
        help="The API key. Default: the key that 'botpool up' stored",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the API's JSON and nothing else.")]
LimitOption = Annotated[
    int, typer.Option(min=1, max=500, metavar="N", help="At most N records, as one page.")
]
CursorOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Continue after the page that printed TEXT.")
]

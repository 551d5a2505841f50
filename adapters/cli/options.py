"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

FeedPath: TypeAlias = Annotated[str, typer.Argument(metavar="FEED", help="The feed's YAML file.", show_default=False)]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
SourceTables: TypeAlias = Annotated[
    list[str] | None, typer.Option("--table", metavar="DB.TABLE", help="Only this source table; may be repeated.")
]
Apply: TypeAlias = Annotated[bool, typer.Option("--apply", help="Run the statements instead of printing them.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Replace: TypeAlias = Annotated[bool, typer.Option("--yes", help="Replace the target's rows without asking.")]
Socket: TypeAlias = Annotated[
    str, typer.Option("--socket", metavar="PATH", help="Serve at this Unix socket what `http` serves.")
]
Patience: TypeAlias = Annotated[
    float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long nothing may happen before it gives up.")
]

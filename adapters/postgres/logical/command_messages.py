"""The message that a feed's event trigger writes for each command (`postgres.ddl_trigger`)."""

from __future__ import annotations

from typing import Final

import msgspec

from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.postgres.ddl_trigger import VERSION
from tidelock.adapters.postgres.logical.relation_changes import Form
from tidelock.engine.model.errors import RESYNC


class CreatedTable(msgspec.Struct, frozen=True, array_like=True):
    """A table that a command has made.  `tag`: of the command; some write rows at once."""

    oid: int
    tag: str


class DroppedObject(msgspec.Struct, frozen=True, array_like=True):
    """A table or an index that is gone.  `type`: `table` or `index`."""

    oid: int
    schema: str
    name: str
    type: str


class CommandForm(msgspec.Struct, frozen=True, array_like=True):
    """A table's form behind a command.  `published`: the feed's publication had it when the command began to tell."""

    published: bool
    form: Form


class Command(msgspec.Struct, frozen=True):
    """Changes that one command has made of tables.

    `tag`: which command.  `plain`: it is the client's own, the only one of its text, and the text has no USING, so a
    column's new type is the one conversion there is.  `rewritten`: oids of tables of which a column was converted, so
    that their rows were written anew.
    """

    version: int
    tag: str = ""
    plain: bool = False
    created: tuple[CreatedTable, ...] = ()
    dropped: tuple[DroppedObject, ...] = ()
    forms: tuple[CommandForm, ...] = ()
    rewritten: tuple[int, ...] = ()

    def tag_of_new(self, oid: int) -> str:
        """Returns the command that made a table; '' where it was there before."""
        return next((one.tag for one in self.created if one.oid == oid), "")


class _Head(msgspec.Struct, frozen=True):
    version: int


_HEAD: Final = msgspec.json.Decoder(_Head)
_COMMAND: Final = msgspec.json.Decoder(Command)


def read_command(content: bytes) -> Command:
    """Reads a message.  Raises UnsuitableLog."""
    try:
        version = _HEAD.decode(content).version
        if version != VERSION:
            raise UnsuitableLog(
                f"a message of the event trigger about a schema change is of version {version}, and this one reads "
                f"{VERSION}",
                "Run the version of Tidelock that made the trigger, or a later one",
            )
        return _COMMAND.decode(content)
    except msgspec.MsgspecError as error:
        raise UnsuitableLog(
            f"a message of the event trigger about a schema change is not understood: {error}",
            f"If somebody else wrote it, {RESYNC}; else run the version of Tidelock that made the trigger",
        ) from error

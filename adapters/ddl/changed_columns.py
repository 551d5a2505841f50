"""Reads another definition of a column, and another character set of a table's texts.

What is not known raises `NotPlain`, as everywhere in this grammar.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tidelock.adapters.ddl.column_types import column_type
from tidelock.adapters.ddl.lexer import Mark, NotPlain, Reader
from tidelock.adapters.ddl.operations import ChangeColumn, ConvertTexts, NotCarried
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.schema.type_map import quoted
from tidelock.engine.model.records import Column, Kind

TEXTS: Final = (Kind.TEXT, Kind.ENUM, Kind.SET)
"""Kinds of columns that have a character set."""
TEXT_OPTIONS: Final = frozenset(("CHARSET", "COLLATE", "CHARACTER", "DEFAULT"))
"""Words with which a table's option begins that says the character set of columns to come."""
TEXT_DEFAULT: Final = "the character set of columns to come"


def changed(reader: Reader, name: str = "") -> ChangeColumn | NotCarried:
    """Reads a column's definition and place, after MODIFY, or after CHANGE and the column's name so far.  Raises
    NotPlain."""
    new = reader.name()
    column, spelled = _typed(reader, new)
    made = _Attributes(reader)
    if made.keyed:
        return NotCarried(f"another definition of column {name or new}", "it makes a key as well")
    charset = made.charset or made.collation.partition("_")[0]
    if charset == "binary":
        raise NotPlain("character set binary")
    if column.kind in TEXTS:
        column = replace(column, charset=charset)
    source = SourceColumn(column, spelled, made.nullable is not False, collation=made.collation)
    place = None
    if reader.take("FIRST"):
        place = ""
    elif reader.take("AFTER"):
        place = reader.name()
    return ChangeColumn(name or new, source, made.nullable, made.automatic, made.words(spelled), place)


def converted(reader: Reader) -> ConvertTexts | NotCarried:
    """Reads a clause after CONVERT.  Raises NotPlain."""
    reader.expect("TO")
    if not reader.take("CHARSET"):
        reader.expect("CHARACTER", "SET")
    charset = reader.name().lower()
    collation = reader.name().lower() if reader.take("COLLATE") else ""
    if charset in ("binary", "default"):
        return NotCarried(f"CONVERT TO CHARACTER SET {charset}", "the statement does not tell what texts become")
    return ConvertTexts(charset, collation)


def _typed(reader: Reader, name: str) -> tuple[Column, str]:
    """Reads a column's type, with the ZEROFILL that shows where its number is taken as a text."""
    begin = reader.mark()
    column, spelled = column_type(reader, name, reader.next().upper)
    end = reader.mark()
    reader.return_to(begin)
    words = [reader.next().upper for _ in range(end - begin)]
    return column, spelled + (" zerofill" if "ZEROFILL" in words else "")


class _Attributes:
    """The attributes of a column, which stand behind its type."""

    def __init__(self, reader: Reader) -> None:
        self.nullable: bool | None = None
        self.automatic = self.keyed = False
        self.charset = self.collation = ""
        self._reader = reader
        self._default = self._others = ""
        while not reader.ended and reader.peek() not in (",", ")", "FIRST", "AFTER"):
            self._take()

    def words(self, type_: str) -> str:
        """Returns default, comment and the like as MySQL and MariaDB take them for a column of a type."""
        default = self._default
        if default.startswith("'") and type_.endswith("text"):
            default = f"({default})"  # MySQL takes a default of a TEXT column only as an expression
        return (f" DEFAULT {default}" if default else "") + self._others

    def _take(self) -> None:
        reader = self._reader
        if reader.take("CHARACTER", "SET") or reader.take("CHARSET"):
            self.charset = reader.name().lower()
        elif reader.take("COLLATE"):
            self.collation = reader.name().lower()
        elif reader.take("NOT", "NULL"):
            self.nullable = False
        elif reader.take("NULL"):
            self.nullable = True
        elif reader.take("DEFAULT"):
            self._default = self._value()
        elif reader.take("COMMENT"):
            self._others += f" COMMENT {quoted(reader.string())}"
        elif reader.take("AUTO_INCREMENT"):
            self.automatic = True
            self._others += " AUTO_INCREMENT"
        elif reader.take("ON", "UPDATE"):
            self._others += f" ON UPDATE {self._function(reader.next().text)}"
        elif reader.take("CHECK"):
            reader.skip_group()
        elif reader.take("PRIMARY", "KEY") or reader.take("UNIQUE", "KEY") or reader.take("UNIQUE"):
            self.keyed = True
        elif not (reader.take("VISIBLE") or reader.take("INVISIBLE")):
            raise NotPlain(reader.rest())

    def _value(self) -> str:
        """Reads a default: a literal, NULL or a function's name; '' for an expression, which the target is without."""
        reader = self._reader
        if reader.peek() == "(":
            reader.skip_group()
            return ""
        sign = "-" if reader.take("-") else ""
        token = reader.next()
        if token.mark in (Mark.STRING, Mark.QUOTED):
            return quoted(token.text)
        if token.mark is Mark.NUMBER:
            return sign + token.text
        return self._function(token.upper)

    def _function(self, name: str) -> str:
        reader = self._reader
        if not name.isidentifier():
            raise NotPlain(name)
        if not reader.take("("):
            return name
        if reader.take(")"):
            return f"{name}()"
        digits = reader.number()
        reader.expect(")")
        return f"{name}({digits})"

"""Reads options of a table in ALTER TABLE, which may follow each other without a comma.

Most mean nothing to rows.  An engine may not keep those that the table has, and a character set is what texts get that
come, or get another definition, in the same statement.  What is not known raises `NotPlain`, as everywhere in this
grammar.
"""

from __future__ import annotations

from typing import Final

from tidelock.adapters.ddl.changed_columns import TEXT_DEFAULT, TEXT_OPTIONS
from tidelock.adapters.ddl.lexer import Reader
from tidelock.adapters.ddl.operations import NotCarried, Rowless

_STORAGE: Final = frozenset((
    "ENGINE", "COMMENT", "AUTO_INCREMENT", "ROW_FORMAT", "KEY_BLOCK_SIZE", "STATS_PERSISTENT", "STATS_AUTO_RECALC",
    "STATS_SAMPLE_PAGES", "ALGORITHM", "LOCK", "ENCRYPTION", "PAGE_COMPRESSED", "MAX_ROWS", "MIN_ROWS",
    "AVG_ROW_LENGTH", "CHECKSUM", "PACK_KEYS", "DELAY_KEY_WRITE", "COMPRESSION", "NOWAIT", "TABLESPACE",
    "PAGE_CHECKSUM", "PAGE_COMPRESSION_LEVEL", "TRANSACTIONAL", "INSERT_METHOD", "AUTOEXTEND_SIZE", "ENGINE_ATTRIBUTE",
    "SECONDARY_ENGINE", "SECONDARY_LOAD", "SECONDARY_UNLOAD", "SECONDARY_ENGINE_ATTRIBUTE", "ORDER",
))  # fmt: skip
"""Options that change no row."""
_KEEPING: Final = frozenset((
    "INNODB", "MYISAM", "ARIA", "MARIA", "ROCKSDB", "MEMORY", "HEAP", "ARCHIVE", "CSV", "NDB", "NDBCLUSTER", "TOKUDB",
    "COLUMNSTORE",
))  # fmt: skip
"""Engines that keep the rows that a table has: BLACKHOLE does not, and others show those of other tables."""


def begins_option(word: str) -> bool:
    """Tells whether an option of the table begins with a word."""
    return word in _STORAGE or word in TEXT_OPTIONS


def options(reader: Reader) -> list[Rowless | NotCarried]:
    """Reads options up to the next comma.  Raises NotPlain."""
    made: list[Rowless | NotCarried] = []
    charset = collation = ""
    while not reader.ended and reader.peek() != ",":
        if reader.take("ENGINE"):
            reader.take("=")
            made += _engine(reader.name_or_string())
        elif reader.take("CHARACTER", "SET") or reader.take("CHARSET"):
            reader.take("=")
            charset = reader.name_or_string().lower()
        elif reader.take("COLLATE"):
            reader.take("=")
            collation = reader.name_or_string().lower()
        elif reader.peek() == "(":
            reader.skip_group()
        else:
            reader.next()
    if charset or collation:
        made.append(Rowless(TEXT_DEFAULT, charset or collation.partition("_")[0], collation))
    return made or [Rowless("an option of the table")]


def _engine(name: str) -> list[Rowless | NotCarried]:
    if name.upper() in _KEEPING:
        return []
    return [NotCarried(f"ENGINE {name}", "it may not keep the rows that the table has, and the log does not tell")]

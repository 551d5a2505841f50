"""Run a translated DDL statement at a MySQL or MariaDB target, also where it ran before and the checkpoint was lost.

MySQL commits implicitly around DDL, so nothing in the same transaction can say that it ran: the catalogue must.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidelock.adapters.mysql.target.failures import code_of
from tidelock.adapters.mysql.target.literals import text
from tidelock.adapters.mysql.target.session import Session, StatementFailed
from tidelock.adapters.ports.sink import TargetError
from tidelock.engine.model.records import TableName

TABLE_EXISTS = 1050
COLUMN_EXISTS = 1060
_NAME = r"`(?:[^`]|``)+`"
_TABLE = re.compile(rf"\s*ALTER\s+TABLE\s+({_NAME})\s*\.\s*({_NAME})", re.IGNORECASE)
_WIDTH = re.compile(r"\b(tinyint|smallint|mediumint|int|bigint|year)\(\d+\)")


async def run_ddl(statement: str, fenced: Session, worker: Session, along: Sequence[bytes] = ()) -> None:
    """Run `statement` in `worker`, while `fenced` holds the owner's row in its transaction.

    A DELETE (a translated TRUNCATE) runs in `fenced` with the statements `along`, and commits it.  Raises what
    `Session.run` raises, and TargetError where a column that should be added is there with another type.
    """
    if statement.lstrip()[:6].upper() == "DELETE":
        await fenced.run([statement.encode(), *along, b"COMMIT"])
        return
    try:
        await worker.ask(statement)
    except StatementFailed as failed:
        match code_of(failed.error):
            case int(code) if code == TABLE_EXISTS:
                return
            case int(code) if code == COLUMN_EXISTS:
                await _check_columns(statement, worker)
            case _:
                raise


async def _check_columns(statement: str, session: Session) -> None:
    """Whether the columns that `statement` adds are there as it spells them."""
    found = _TABLE.match(statement)
    if found is None:
        raise TargetError(f"a column of this statement exists already: {statement}", _HINT)
    table = TableName(*(part[1:-1].replace("``", "`") for part in found.groups()))
    rows = await session.ask(
        "SELECT COLUMN_NAME,COLUMN_TYPE FROM information_schema.COLUMNS "
        f"WHERE TABLE_SCHEMA={text(table.schema)} AND TABLE_NAME={text(table.table)}"
    )
    types = {str(name).lower(): _canonical(str(type_)) for name, type_ in rows.rows}
    for name in re.findall(rf"\bADD\s+(?:COLUMN\s+)?(?:IF\s+NOT\s+EXISTS\s+)?({_NAME})", statement, re.IGNORECASE):
        there = types.get(name[1:-1].replace("``", "`").lower())
        wanted = _canonical(statement[statement.index(name, found.end()) + len(name) :])
        if there is None or not re.match(re.escape(there) + r"(?![\w(])", wanted):
            raise TargetError(
                f"{table} has {name} as {there or 'no column'}, which is not what this adds: {statement}", _HINT
            )


_HINT = "make the column as the statement says, then `tidelock ddl done`"


def _canonical(definition: str) -> str:
    """Lower case, single spaces, no display widths."""
    spaced = re.sub(r"\s*([(),])\s*", r"\1", " ".join(definition.split()).lower())
    return _WIDTH.sub(r"\1", spaced)

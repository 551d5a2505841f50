"""Statements that would repair differing rows now, for people to read (`tidelock repair --dry-run`).

They are not what `repair` does: the feed reads the rows again at a place of its own choosing, and writes them there.
"""

from __future__ import annotations

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.mysql.target import literals as mysql
from tidelock.adapters.postgres.target import literals as postgres
from tidelock.adapters.postgres.target.values import Unwritable, ZeroDates, renderer
from tidelock.adapters.spark.comparable_values import Form, shown
from tidelock.adapters.spark.comparable_values import Value as FormValue
from tidelock.adapters.spark.keys import NoSuchKey, SideColumn, canonical
from tidelock.adapters.verify.plan import ReadingPlan
from tidelock.adapters.verify.recheck import SeenRow
from tidelock.adapters.verify.table_pairs import ComparedTable
from tidelock.adapters.verify.verify import Verification, VerifyProgress, spark_for
from tidelock.engine.model.records import Kind


def repair_statements(
    feed: Feed, made: ReadingPlan, wait_seconds: float, progress: VerifyProgress
) -> tuple[list[str], str]:
    """Returns statements for the target, and a note on why they may be out of date, or ''.

    Raises Missing, SparkFailed, SourceError, TargetError.
    """
    with spark_for(feed, made, progress) as spark:
        run = Verification(feed, made, spark, wait_seconds, progress)
        tables = run.judged()
    return [
        statement(table.cut.pair, seen, feed.zero_dates)
        for table in tables
        for _, seen in sorted(table.recheck.differences.items(), key=lambda item: str(item[0]))
    ], run.note


def statement(pair: ComparedTable, seen: SeenRow, zero_dates: ZeroDates) -> str:
    """Returns INSERT, UPDATE or DELETE for one row of a table with a key; a comment where the target cannot hold the
    row.
    """
    try:
        return _statement(pair, seen, zero_dates)
    except (Unwritable, mysql.Unwritable) as error:
        key = zip(pair.columns, pair.forms, (seen.source or ())[: pair.key], strict=False)
        names = ", ".join(f"{name}={shown(form, value)!r}" for name, form, value in key)
        return f"-- {pair.name}, {names}: {error}"


def _statement(pair: ComparedTable, seen: SeenRow, zero_dates: ZeroDates) -> str:
    place = pair.target.table
    if seen.source is None:
        assert seen.target is not None, "it is at one end at least"
        return f"DELETE FROM {place} WHERE {_where(pair, seen.target, zero_dates)};"
    values = _literals(pair, seen.source, zero_dates)
    if seen.target is None:
        names = ", ".join(_name(pair, n) for n in range(len(pair.columns)))
        return f"INSERT INTO {place} ({names}) VALUES ({', '.join(values)});"
    differing = [n for n, value in enumerate(seen.source) if value != seen.target[n]]
    sets = ", ".join(f"{_name(pair, n)} = {values[n]}" for n in differing)
    return f"UPDATE {place} SET {sets} WHERE {_where(pair, seen.target, zero_dates)};"


def _name(pair: ComparedTable, n: int) -> str:
    return quote(pair.target.dialect, pair.columns[n])


def _where(pair: ComparedTable, image: tuple[FormValue, ...], zero_dates: ZeroDates) -> str:
    values = _literals(pair, image[: pair.key], zero_dates)
    return " AND ".join(f"{_name(pair, n)} = {values[n]}" for n in range(pair.key))


def _literals(pair: ComparedTable, image: tuple[FormValue, ...], zero_dates: ZeroDates) -> list[str]:
    columns = zip(pair.forms, pair.target.columns, image, strict=False)
    return [_literal(pair.target.dialect, form, column, value, zero_dates) for form, column, value in columns]


def _literal(dialect: Dialect, form: Form, column: SideColumn, value: FormValue, zero_dates: ZeroDates) -> str:
    """Returns a literal.  A value that the log could not hold (in a row that the target alone has) is written as it is
    shown.
    """
    if value is None:
        return "NULL"
    text = shown(form, value)
    try:
        logged = text if column.column.kind is Kind.JSON else canonical(form, column.column, text)
    except NoSuchKey:
        return mysql.text(str(text))
    if dialect == "mysql":
        return mysql.one(column.column, logged, compare=False)
    if column.column.kind is Kind.GEOMETRY:  # the image has no SRID, which the log has
        logged = bytes(4) + logged
    return postgres.elements(column.name, renderer(column.column, column.type, zero_dates)([logged]))[0]

"""Meaning of servers' errors: the tables, and the page that is made of them."""

from pathlib import Path

import asyncpg
import pytest
from pymysql import err

from tidelock.adapters.mysql import connection
from tidelock.adapters.mysql.error_numbers import MEANINGS, meaning
from tidelock.adapters.mysql.target.failures import failure_of as mysql_failure
from tidelock.adapters.ports.source_errors import AccessDenied, Busy, SourceError, Unreachable
from tidelock.adapters.postgres.sqlstates import MEANINGS as SQLSTATES
from tidelock.adapters.postgres.target.failures import failure_of as postgres_failure
from tidelock.adapters.reference.errors import reference
from tidelock.engine.model.errors import ErrorKind


def test_the_page_is_made_of_the_tables() -> None:
    page = Path(__file__).parents[2] / "docs/reference/errors.md"
    assert page.read_text() == reference(), "python -m tidelock.adapters.reference.errors > docs/reference/errors.md"


def test_no_code_means_two_things() -> None:
    for codes in ([c for one in SQLSTATES for c in one.codes], [n for one in MEANINGS for n in one.numbers]):
        assert len(codes) == len(set(codes))


PASSING = "53000", "53100", "53200", "53300", "53400", "25006", "57P03", "57P01", "40P01", "55P03"


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        *((code, ErrorKind.TRANSIENT) for code in PASSING),
        *((code, ErrorKind.ROW) for code in ("22001", "23505", "23514", "P0001")),
        *((code, ErrorKind.TARGET) for code in ("42501", "42P01", "28P01", "3D000", "XX001", "0A000")),
    ],
)
def test_sqlstates(code: str, trouble: ErrorKind) -> None:
    error = asyncpg.PostgresError.new({"C": code, "M": "words", "S": "ERROR"})
    assert postgres_failure(error).kind is trouble
    assert (postgres_failure(error, committing=True).kind is ErrorKind.IN_DOUBT) == (code in ("57P03", "57P01"))


def test_a_full_disk_of_a_server_as_a_session_begins() -> None:
    """PostgreSQL tells that it could not write its own file of the catalogue under a code of faults of its own."""
    fields = {"C": "XX000", "S": "FATAL", "V": "FATAL"}
    full = asyncpg.PostgresError.new({**fields, "M": "could not write init file"})
    assert postgres_failure(full).kind is ErrorKind.TRANSIENT
    assert postgres_failure(asyncpg.PostgresError.new({**fields, "M": "other"})).kind is ErrorKind.TARGET


@pytest.mark.parametrize("code", ["53100", "58030", "XX000"])
def test_a_panic_leaves_a_commit_in_doubt(code: str) -> None:
    """The server could not write its log: after its recovery what was to be committed may be there."""
    panic = asyncpg.PostgresError.new({"C": code, "S": "PANIK", "V": "PANIC", "M": "could not write to file"})
    assert postgres_failure(panic, committing=True).kind is ErrorKind.IN_DOUBT
    assert postgres_failure(panic).kind is ErrorKind.TRANSIENT


@pytest.mark.parametrize(
    ("number", "words", "trouble"),
    [
        *((number, "", ErrorKind.TRANSIENT) for number in (1040, 1203, 1226, 1021, 1037, 1041, 1114, 1836, 3100, 2013)),
        (1290, "running with the --read-only option", ErrorKind.TRANSIENT),
        (1105, "An error occurred in multi-table update", ErrorKind.TRANSIENT),
        (1105, "Unknown error", ErrorKind.TARGET),
        (1290, "running with the --secure-file-priv option", ErrorKind.TARGET),
        (1030, 'Got error 28 "No space left on device" from storage engine', ErrorKind.TRANSIENT),
        (1030, 'Got error 127 "Record file is crashed" from storage engine', ErrorKind.TARGET),
        *((number, "", ErrorKind.ROW) for number in (1062, 1406, 1452, 4025)),
        *((number, "", ErrorKind.TARGET) for number in (1045, 1142, 1146, 1054)),
    ],
)
def test_error_numbers(number: int, words: str, trouble: ErrorKind) -> None:
    assert mysql_failure(err.OperationalError(number, words)).kind is trouble
    assert meaning(number, words).kind is trouble


@pytest.mark.parametrize(
    ("number", "kind"), [(1040, Busy), (1203, Busy), (1041, Busy), (2013, Unreachable), (1045, AccessDenied)]
)
def test_a_source_that_cannot_now_is_asked_again(number: int, kind: type[SourceError]) -> None:
    found = connection.explained(err.OperationalError(number, "words"), connection.Address("h"))
    assert type(found) is kind and "words" in found.message
    assert isinstance(found, Unreachable) == (number != 1045)

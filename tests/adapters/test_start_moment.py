"""`start:` at a time: the feed begins before the first transaction that was committed then or later."""

import asyncio
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.harness.rig import Rig, until
from bench.harness.session import Flavor, connect
from tidelock.adapters.checks.feed import check
from tidelock.adapters.config.feed import ConfigError, Feed
from tidelock.adapters.config.loader import load, read
from tidelock.adapters.config.moments import StartMoment, start_moment
from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.commit_search import file_before, place_in
from tidelock.adapters.mysql.binlog.log_file import Event
from tidelock.adapters.ports.finding import Finding

SECOND = 1_000_000
FEED = "feed: shop\nsource: {}\ntarget: postgresql://u:p@t:2/d\ntables: [{{source: shop.*}}]\nstart: {}\n"


def feed(start: str, source: str = "mariadb://u:p@s:1") -> Feed:
    return read(FEED.format(source, start), Path("shop.yaml"))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20T12:00Z", StartMoment(at_us=1_795_176_000 * SECOND)),
        ("2026-11-20 13:00:00.5+01:00", StartMoment(at_us=1_795_176_000 * SECOND + SECOND // 2)),
        ("2026-11-20", StartMoment(at_us=1_795_132_800 * SECOND)),
        ("2h ago", StartMoment(age_us=7200 * SECOND)),
        ("90min ago", StartMoment(age_us=5400 * SECOND)),
        ("0s ago", None),
        ("2026-13-40", None),
        ("log.000001:4", None),
        ("now", None),
    ],
)
def test_a_time_or_an_age_is_a_moment(text: str, moment: StartMoment | None) -> None:
    assert start_moment(text) == moment


def test_a_moment_is_read_as_one_and_refused_at_postgres_and_where_it_is_none() -> None:
    assert feed("2h ago").start_place == StartMoment(age_us=7200 * SECOND)
    assert StartMoment(age_us=3 * SECOND).before(10 * SECOND) == 7 * SECOND
    with pytest.raises(ConfigError, match=r"line 5: start: .* none goes back to a time. Use copy"):
        feed("2h ago", "postgresql://u:p@s:1/d")
    with pytest.raises(ConfigError, match=r"'2026-13-40' is not now, .* a time"):
        feed("2026-13-40")


@pytest.mark.parametrize(
    ("begun", "file"),
    [
        ((100, 200, 300), "b"),
        ((100, 300, 400), "a"),
        ((100, 200, 249), "c"),
        ((100, 250, 300), "a"),
        ((100, 260, 150), "a"),  # the clock stepped back behind the second one
        ((250, 260, 270), None),
    ],
)
def test_the_search_begins_before_the_first_file_of_that_time(begun: tuple[int, ...], file: str | None) -> None:
    times = dict(zip("abc", begun, strict=True))
    assert file_before("abc", times.__getitem__, 250) == file


def mariadb_log(*times: int) -> list[Event]:
    """A head and a transaction at each of these seconds, 100 bytes each, in two files."""
    head = [Event(events.FORMAT_DESCRIPTION, 1, 104, b"", 0, 0)]
    made = list(head)
    for number, when in enumerate(times, 1):
        if number == 3:
            made += [Event(events.ROTATE, 0, 0, struct.pack("<Q", 4) + b"log.2", 0, 13), *head]
        end = made[-1].log_end + 100
        whole = bytes(events.HEADER_SIZE) + struct.pack("<QIB", number, 0, 0)
        made.append(Event(events.MARIADB_GTID, when, end - 50, whole, events.HEADER_SIZE, len(whole)))
        made.append(Event(events.XID, when, end, b"", 0, 0))
    return made


@pytest.mark.parametrize(
    ("moment", "place"),
    [
        (10 * SECOND, "log.1:104"),
        (20 * SECOND, "log.1:204"),
        (20 * SECOND + 1, "log.1:204"),  # a second counts as its end
        (21 * SECOND, "log.2:104"),  # 30, before the clock stepped back to 15
        (31 * SECOND, "log.2:304"),  # the end
    ],
)
def test_the_place_is_before_the_first_transaction_of_that_time(moment: int, place: str) -> None:
    assert str(place_in(mariadb_log(10, 20, 30, 15), "log.1", moment)) == place


def clock(rig: Rig) -> datetime:
    """The source's."""
    return datetime.fromtimestamp(float(rig._session.rows("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]), UTC)


@pytest.mark.parametrize("source", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_rows_before_the_time_are_absent_and_later_ones_present(
    source: str, make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    """MariaDB has whole seconds, which its rows are given here; of MySQL the clock is asked between two of them.  Row 7
    is prepared before and committed later."""
    rig = make_rig(request.getfixturevalue(source), request.getfixturevalue("postgres"), "moment", lanes=2)
    rig.table("t", "id int PRIMARY KEY")
    rig.at_source("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    decided = connect(rig.source.url(rig.schema))
    for statement in ("XA START 'm'", "INSERT INTO t VALUES (7)", "XA END 'm'", "XA PREPARE 'm'"):
        decided.send(statement)
    first = clock(rig).replace(microsecond=0)
    until(lambda: clock(rig) >= first + timedelta(seconds=1), "the second behind that in which the log may have begun")
    now = clock(rig)
    if rig.flavor is Flavor.MARIADB:
        now = now.replace(microsecond=0) + timedelta(seconds=1)
        second = int(now.timestamp())
        for id_, when in ((3, second), (4, second + 9), (5, second - 9)):
            rig.at_source(f"SET timestamp = {when}", f"INSERT INTO t VALUES ({id_})")
    else:
        rig.at_source(*(f"INSERT INTO t VALUES ({id_})" for id_ in (3, 4, 5)))
    decided.send("XA COMMIT 'm'")
    decided.close()
    rig.start_at = now.isoformat()
    assert [(one.level, "begins at" in one.message) for one in found(rig)] == [("note", True)]
    rig.catch_up()
    assert [id_ for (id_,) in rig.rows(f"SELECT CONCAT(id, '') FROM {rig.schema}.t ORDER BY 1")] == ["3", "4", "5", "7"]
    assert f"`start: {rig.start_at}`: begins at" in rig.said()
    rig.start_at = "2001-01-01T00:00Z"  # of a later run it means nothing
    rig.at_source("INSERT INTO t VALUES (6)")
    rig.catch_up()
    assert rig.rows(f"SELECT CONCAT(count(*), '') FROM {rig.schema}.t") == [("5",)]
    rig.name += "-2"
    for start, words in (("2001-01-01T00:00Z", "does not reach back to"), ("2101-01-01T00:00Z", "is in the future")):
        rig.start_at = start
        assert [words in one.message for one in found(rig) if one.level == "error"] == [True]
    assert rig.catch_up_code() == 1
    assert "is in the future" in rig.said()


def found(rig: Rig) -> list[Finding]:
    """The findings of `check` about the place to begin at."""
    findings = asyncio.run(check(load(rig.feed))).findings
    return [one for one in findings if one.kind in ("start-place", "source-position")]

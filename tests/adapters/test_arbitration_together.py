"""Changes that one transaction of an arbiter decides about: looked at together, they come out as one by one."""

from __future__ import annotations

from typing import Any

import pytest

from bench.harness.rig import until
from tests.adapters.test_arbitration import SERVERS, Arbiter, Made, made
from tidelock.engine.model.conflict_options import TableWords
from tidelock.engine.model.records import Row
from tidelock.engine.protocol.events import BatchCommitted, Decided
from tidelock.engine.protocol.steps import DecideChange

__all__ = ["made"]
ARRIVAL, ARBITER = TableWords("arrival"), TableWords("arbiter")
KINDS = 9
WORD = "wörd"
"""MariaDB joins no such value, and is asked for each by itself."""


def fill(at: Arbiter, count: int) -> None:
    """Rows 10, 20, …, and one behind each that holds a value."""
    rows = (f"({10 * n}, 'u{n}', {n}), ({10 * n + 1}, 'held{n}', 0)" for n in range(count))
    at.session.send(f"INSERT INTO t VALUES {', '.join(rows)}")
    at.session.send(f"INSERT INTO t VALUES (-1, '{WORD}', 0)")


def images(n: int) -> tuple[Row | None, Row | None]:
    """A change of a kind of its own, of the rows that `fill` has made for this number."""
    key, own = 10 * n, (10 * n, f"u{n}", n)
    pairs: list[tuple[Row | None, Row | None]] = [
        (own, (key, f"u{n}", -1)),
        ((key, f"u{n}", 77), (key, f"u{n}", -2)),  # it is another
        ((key + 5, f"x{n}", 1), (key + 5, f"x{n}", 2)),  # it is not there
        (own, None),
        ((key, "else", n), None),
        (None, (key + 6, None, 6)),
        (None, (key, f"new{n}", 7)),  # it is there
        (own, (key, f"held{n}", 8)),  # another row has its value
        (own, (key + 7, f"u{n}", 9)),
    ]
    return pairs[n % KINDS]


def questions(at: Arbiter, count: int) -> tuple[DecideChange, ...]:
    words = [ARRIVAL, ARBITER]
    asked = [at.question(*images(n), words[n // KINDS % 2]) for n in range(count)]
    return (*asked, at.question(None, (-2, WORD, 1), ARRIVAL), at.question(None, (-3, "frei", 1), ARRIVAL))


def kept(at: Arbiter) -> list[tuple[Any, ...]]:
    """Records of lost rows, and rows that are told; PostgreSQL's log has the latter."""
    columns = "row_key, type, outcome, CONCAT(incoming, ''), lost, stands"
    found = at.session.rows(f"SELECT {columns} FROM {at.books}.tidelock_conflicts ORDER BY row_key, type, entry")
    if not at.postgres:
        found += at.session.rows(f"SELECT row_key, image FROM {at.books}.tidelock_verdicts ORDER BY row_key")
    return found


@pytest.mark.parametrize("server", SERVERS)
def test_together_they_come_out_as_one_by_one(server: str, made: Made) -> None:
    together, singly = made(server), made(server)
    answers: list[list[Decided]] = [[], []]
    for at, found in zip((together, singly), answers, strict=True):
        at.own()
        fill(at, 4 * KINDS)
        asked = questions(at, 4 * KINDS)
        for part in (asked,) if at is together else ((one,) for one in asked):
            answer = at.apply(at.batch(decide=part))
            assert isinstance(answer, BatchCommitted), answer
            found += answer.decided
    assert answers[0] == answers[1]
    assert {kind for one in answers[0] for kind, _ in one.conflicts} == {
        "update_origin_differs", "update_missing", "delete_origin_differs", "insert_exists", "update_exists"
    }  # fmt: skip
    assert together.rows() == singly.rows()
    assert kept(together) == kept(singly)


@pytest.mark.parametrize("server", SERVERS)
def test_a_unique_value_that_an_update_leaves_alone_may_be_wanted_by_another_change(server: str, made: Made) -> None:
    """They share no lock, as no change of the spoke's own let go of the value in between."""
    at = made(server)
    at.own()
    at.session.send("INSERT INTO t VALUES (1, 'other', 0)")
    asked = at.question((1, "x", 0), (1, "x", 1), ARRIVAL), at.question(None, (2, "x", 2), ARRIVAL)
    answer = at.apply(at.batch(decide=asked))
    assert isinstance(answer, BatchCommitted), answer
    assert [kind for one in answer.decided for kind, _ in one.conflicts] == ["update_origin_differs", "insert_exists"]
    assert at.rows() == [("2", "x", "2")]


@pytest.mark.parametrize("server", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_more_changes_take_no_more_statements(server: str, made: Made) -> None:
    at = made(server)
    at.own()
    fill(at, 11 * KINDS)
    asked = [at.question(*images(n), ARRIVAL) for n in range(11 * KINDS) if n % KINDS in (1, 4)]
    taken = []
    for part in (asked[:2], asked[2:4], asked[4:]):  # the first finds no session yet
        before = statements(at)
        assert isinstance(at.apply(at.batch(decide=tuple(part))), BatchCommitted)
        taken.append(statements(at) - before)
    assert taken[1] == taken[2], taken


@pytest.mark.parametrize("server", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_what_is_decided_tells_that_there_is_no_row_only_while_nobody_can_insert_one(server: str, made: Made) -> None:
    """Gaps are locked only then: whoever finds no row and tells none lets others insert beside it."""
    at = made(server)
    at.own()
    holder, writer = at.another(), at.another()
    holder.send(f"LOCK TABLES {at.books}.tidelock_verdicts READ")
    missing = at.batch(decide=(at.question((1, "a", 0), (1, "a", 1), ARBITER),))
    deciding = at.begin(at.sink.apply(missing))
    until(lambda: waits_for_a_table(at), "the verdict")
    writer.send("SET SESSION innodb_lock_wait_timeout = 1")
    with pytest.raises(Exception, match=r"(?i)lock"):
        writer.send("INSERT INTO t VALUES (1, 'a', 0)")
    holder.send("UNLOCK TABLES")
    assert deciding.result() == BatchCommitted(missing.id, decided=(Decided(False, (("update_missing", "verdict"),)),))
    writer.send("INSERT INTO t VALUES (1, 'a', 0)")
    holder.close()
    writer.close()


@pytest.mark.parametrize("server", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_a_row_that_is_inserted_after_the_look_is_decided_about_anew(server: str, made: Made) -> None:
    at = made(server)
    at.own()
    at.session.send("INSERT INTO t VALUES (2, 'b', 0)")
    holder, writer = at.another(), at.another()
    holder.send("BEGIN")
    holder.rows("SELECT CONCAT(n, '') FROM t WHERE id = 2 FOR UPDATE")
    batch = at.batch(decide=(at.question(None, (1, "b", 1), ARRIVAL),))  # row 2 holds its value
    deciding = at.begin(at.sink.apply(batch))
    until(at.waits, "the look")
    writer.send("INSERT INTO t VALUES (1, 'mine', 0)")
    holder.send("ROLLBACK")
    answer = deciding.result()
    assert {kind for kind, _ in answer.decided[0].conflicts} == {"insert_exists", "multiple_unique_conflicts"}, answer
    assert at.rows() == [("1", "b", "1")] and at.count("conflicts") == 2
    holder.close()
    writer.close()


def waits_for_a_table(at: Arbiter) -> bool:
    told = "SELECT 1 FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock%'"
    return bool(at.session.rows(told))


def statements(at: Arbiter) -> int:
    """Statements that the server has been sent, without those by which it is asked for their number."""
    asked = at.session.rows("SHOW GLOBAL STATUS LIKE 'Com_%'")
    words = ("select", "insert", "update", "update_multi", "delete", "delete_multi", "commit")
    told = [f"Com_{word}" for word in words]
    return sum(int(count) for name, count in asked if name in told)

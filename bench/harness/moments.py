"""Moments of a schema change at which a feed is held, by locks that a session of its own has at the target.

Each moment is a context manager: inside, the feed has come to it and can go no further.  Who kills it there knows
what it had done.  Tables: `t` is altered, its row 1 is changed before the statement, row 1 of `u` behind it.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

from bench.harness.rig import Rig, until
from bench.harness.session import Flavor, Session, connect
from bench.harness.tidelock import Process
from bench.harness.workers import Workers

SECONDS: Final = 400.0
LONGEST_SECONDS: Final = 0.4
_TABLE_WAITS = {
    Flavor.POSTGRES: "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'",
    Flavor.MYSQL: "SELECT 1 FROM information_schema.processlist WHERE state = 'Waiting for table metadata lock'",
}
_ROW_WAITS = {
    Flavor.POSTGRES: "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')",
    Flavor.MYSQL: "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
}


class Deployment(Protocol):
    """A feed in one process or several, which are started and killed."""

    rig: Rig

    def start(self) -> None:
        """Start what does not run."""

    def kill(self) -> None:
        """SIGKILL."""

    def freeze(self) -> None:
        """SIGSTOP to all."""

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Raises AssertionError or TidelockFailed, with what it said, if `true` stays false or it ends."""

    def owners(self) -> int:
        """Grows with each takeover."""


class Embedded:
    """`tidelock run`."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self._process: Process | None = None

    def start(self) -> None:
        if self._process is None:
            self._process = self.rig.run()

    def kill(self) -> None:
        assert self._process is not None, "it runs"
        self._process.kill()
        self._process = None

    def freeze(self) -> None:
        assert self._process is not None, "it runs"
        self._process.signal(signal.SIGSTOP)

    def until(self, true: Callable[[], bool], what: str) -> None:
        def seen() -> bool:
            if self._process is not None:
                self._process.check()
            return true()

        try:
            until(seen, what, SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.rig.said()[-3000:]}") from None

    def owners(self) -> int:
        return _epochs(self.rig)


class Scaled:
    """Workers.  `rng`: says whether all are killed, or who coordinates alone."""

    def __init__(self, workers: Workers, rng: random.Random) -> None:
        self.rig, self._workers, self._rng = workers.rig, workers, rng

    def start(self) -> None:
        self._workers.start(*(name for name, place in self._workers.places.items() if not place.running))

    def kill(self) -> None:
        alone = self._rng.random() < 0.4 and self._workers.coordinator
        for name in [self._workers.coordinator] if alone else list(self._workers.places):
            self._workers.kill(name, back_after=None)

    def freeze(self) -> None:
        for name in self._workers.pids:
            self._workers.freeze(name)

    def until(self, true: Callable[[], bool], what: str) -> None:
        self._workers.until(true, what, SECONDS)

    def owners(self) -> int:
        return _epochs(self.rig)


def _epochs(rig: Rig) -> int:
    """The sum of all groups' epochs; 0 before the first takeover."""
    place = rig.options.get("schema", "tidelock")
    made = f"information_schema.tables WHERE table_schema = '{place}' AND table_name = 'tidelock_owner'"
    if not rig.rows(f"SELECT 1 FROM {made}"):
        return 0
    found = rig.rows(f"SELECT CONCAT(COALESCE(SUM(epoch), 0), '') FROM {place}.tidelock_owner WHERE feed='{rig.name}'")
    return int(found[0][0])


class Moments:
    """The moments.  `arrived`: rows behind the statement are at the target; `altered`: its shape is there."""

    def __init__(self, feed: Deployment, rng: random.Random) -> None:
        self._feed, self._rng = feed, rng
        self._rig = feed.rig
        self.arrived: Callable[[], bool]
        self.altered: Callable[[], bool]

    @property
    def all(self) -> dict[str, Callable[[Callable[[], None]], AbstractContextManager[None]]]:
        """Moments by their names, in the order of a statement's way; each takes what makes the change at the source."""
        return {
            "before it is read": self.before_it_is_read,
            "rows before it wait": self.rows_before_it,
            "the checkpoint before it waits": self.checkpoint_before_it,
            "it waits for the table": self.it_waits,
            "it waits, and the next run comes": self.it_waits_for_two,
            "it runs": self.it_runs,
            "it ran and nobody heard": self.it_ran_unheard,
            "the checkpoint behind it waits": self.checkpoint_behind_it,
            "rows behind it wait": self.rows_behind_it,
            "all is done": self.all_is_done,
        }

    # ------------------------------------------------------------------ locks

    @contextmanager
    def _lock(self, sql: str) -> Iterator[Callable[[], None]]:
        session = connect(self._rig.target.url())
        held: list[Session] = [session]

        def let_go() -> None:
            if held:
                held.pop().close()

        try:
            session.send("BEGIN")
            session.send(sql)
            yield let_go
        finally:
            let_go()

    def _row(self, table: str) -> AbstractContextManager[Callable[[], None]]:
        return self._lock(f"UPDATE {self._rig.schema}.{table} SET v = v WHERE id = 1")

    def _table(self) -> AbstractContextManager[Callable[[], None]]:
        return self._lock(f"DELETE FROM {self._rig.schema}.t WHERE id = -1")

    def _checkpoint(self) -> AbstractContextManager[Callable[[], None]]:
        place = self._rig.options.get("schema", "tidelock")
        return self._lock(f"UPDATE {place}.tidelock_checkpoint SET site = site WHERE feed = '{self._rig.name}'")

    def _waits(self, asked: dict[Flavor, str]) -> bool:
        flavor = Flavor.POSTGRES if "postgres" in self._rig.target_url else Flavor.MYSQL
        return bool(self._rig.rows(asked[flavor]))

    def _until_table_waits(self) -> None:
        self._feed.until(lambda: self._waits(_TABLE_WAITS), "a statement that waits for the table")

    def _until_row_waits(self) -> None:
        self._feed.until(lambda: self._waits(_ROW_WAITS), "a statement that waits for a row")

    # ------------------------------------------------------------------ moments

    @contextmanager
    def before_it_is_read(self, change: Callable[[], None]) -> Iterator[None]:
        self._feed.kill()
        change()
        before = self._feed.owners()
        self._feed.start()
        self._feed.until(lambda: self._feed.owners() > before, "a takeover")
        yield

    @contextmanager
    def rows_before_it(self, change: Callable[[], None]) -> Iterator[None]:
        with self._row("t"):
            change()
            self._until_row_waits()
            yield

    @contextmanager
    def checkpoint_before_it(self, change: Callable[[], None]) -> Iterator[None]:
        with self._checkpoint():
            change()
            self._until_row_waits()
            yield

    @contextmanager
    def it_waits(self, change: Callable[[], None]) -> Iterator[None]:
        with self._table():
            change()
            self._until_table_waits()
            yield

    @contextmanager
    def it_waits_for_two(self, change: Callable[[], None]) -> Iterator[None]:
        """The statement of the run that was killed waits still when the next run comes to it."""
        with self._table() as let_go:
            change()
            self._until_table_waits()
            before = self._feed.owners()
            self._feed.kill()
            self._feed.start()
            self._feed.until(lambda: self._feed.owners() > before, "a takeover")
            self._until_table_waits()
            let_go()
            yield

    @contextmanager
    def it_runs(self, change: Callable[[], None]) -> Iterator[None]:
        with self._table() as let_go:
            change()
            self._until_table_waits()
            let_go()
            time.sleep(self._rng.uniform(0.0, LONGEST_SECONDS))
            yield

    @contextmanager
    def it_ran_unheard(self, change: Callable[[], None]) -> Iterator[None]:
        """The server ends the statement while the feed stands still, which so never hears of it."""
        with self._table() as let_go:
            change()
            self._until_table_waits()
            self._feed.freeze()
            let_go()
            until(self.altered, "the shape, which the server makes", SECONDS)
            yield

    @contextmanager
    def checkpoint_behind_it(self, change: Callable[[], None]) -> Iterator[None]:
        with self._table() as let_go:
            change()
            self._until_table_waits()
            with self._checkpoint():
                let_go()
                self._feed.until(self.altered, "the shape")
                self._until_row_waits()
                yield

    @contextmanager
    def rows_behind_it(self, change: Callable[[], None]) -> Iterator[None]:
        with self._row("u"):
            change()
            self._feed.until(self.altered, "the shape")
            self._until_row_waits()
            yield

    @contextmanager
    def all_is_done(self, change: Callable[[], None]) -> Iterator[None]:
        change()
        self._feed.until(self.arrived, "the rows behind it")
        yield


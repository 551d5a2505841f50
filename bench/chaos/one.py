"""A scripted hour at one process: `tidelock run` under a supervisor, steady work, and blows from a shuffled deck.

After each blow rows of every table must flow again, and how soon is kept.  In the end both ends are equal row by row,
nothing is parked; the recorder's history at the target holds no row version twice and none after a newer one; the
checkpoint never went back; the process never ended unasked; its memory is flat.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.chaos.blows import Blows, deck
from bench.chaos.checkpoints import GONE, Checkpoints, leave
from bench.chaos.memory import measured
from bench.chaos.result import Blow, Result
from bench.chaos.steady import Steady
from bench.chaos.supervised import Supervised
from bench.chaos.target import MYSQL_HALL, POSTGRES_HALL, Target
from bench.harness import recorder
from bench.harness.recorder import Recorder
from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.session import Session, connect
from bench.harness.small_disk import SmallDisk
from bench.harness.usage import Usage
from bench.harness.wire import Wire
from bench.harness.workload.churn import Churn
from bench.harness.workload.family import Family
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several
from bench.outcome import Outcome

NAME: Final = "chaos-one"
SERVERS: Final[dict[str, type[Server]]] = {"mariadb": MariaDb, "mysql": MySql, "postgres": Postgres}
RATE: Final = 300.0
LONGEST_REST_SECONDS: Final = 5.0
WAIT_SECONDS: Final = 180.0
POLL_SECONDS: Final = 0.1
SAMPLE_SECONDS: Final = 1.0
CATCH_UP_SECONDS: Final = 180.0
CURVE_POINTS: Final = 400


class Flow:
    """The flow of rows: their versions grow with each change, and both ends have an index of them."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._sessions: dict[Server, Session] = {}

    def prepare(self) -> None:
        for table in self._rig.tables:
            index = f"CREATE INDEX {table}_version ON {self._rig.schema}.{table} (version)"
            self._rig.at_source(index)
            self._rig.at_target(index)

    def until(self, seconds: float, meanwhile: Callable[[], None]) -> float | None:
        """Returns seconds until the target has what the source commits in each table from now on; None: too long."""
        begun, marks = time.monotonic(), list[int]()
        while time.monotonic() < begun + seconds:
            meanwhile()
            marks = marks or self._newest(self._rig.source)
            if marks and all(itertools.starmap(operator.gt, zip(self._newest(self._rig.target), marks, strict=False))):
                return time.monotonic() - begun
            time.sleep(POLL_SECONDS)
        return None

    def _newest(self, server: Server) -> list[int]:
        """The largest version of each table; empty while the server is away."""
        try:
            session = self._sessions[server] = self._sessions.get(server) or connect(server)
            query = f"SELECT CONCAT(COALESCE(MAX(version), 0), '') FROM {self._rig.schema}."
            return [int(session.rows(query + table)[0][0]) for table in self._rig.tables]
        except GONE:
            leave(self._sessions.pop(server, None))
            return []

    def close(self) -> None:
        for session in self._sessions.values():
            leave(session)


class Hour:
    """One run.  `blows`: what happened so far."""

    def __init__(self, blows: Blows, flow: Flow, work: Steady, rng: random.Random) -> None:
        self.blows: list[Blow] = []
        self._acts, self._flow, self._work, self._rng = blows, flow, work, rng
        self._begun = time.monotonic()

    def run(self, kinds: Iterator[str], minutes: float) -> None:
        """Until the time is over, the kinds are used up, or rows flow no more."""
        for kind in kinds:
            if time.monotonic() >= self._begun + minutes * 60 or not self._strike(kind):
                return
            time.sleep(self._rng.uniform(0.5, LONGEST_REST_SECONDS))

    def _strike(self, kind: str) -> bool:
        begun = time.monotonic()
        self._acts.strike(kind)
        over = time.monotonic()
        flowing = self._flow.until(WAIT_SECONDS, self._work.check)
        took = None if flowing is None else round(flowing, 2)
        self.blows.append(Blow(round(begun - self._begun, 1), kind, round(over - begun, 2), took))
        print(self.blows[-1], flush=True)
        return flowing is not None


def run(
    minutes: float,
    seed: int,
    pair: str = "mariadb:postgres",
    logs: Path | None = None,
    kinds: Sequence[str] = (),
    *,
    short: bool = False,
    folder: Path | None = None,
) -> Result:
    """`kinds`: blows in their order, once, in place of the shuffled decks.  `logs`: a folder that keeps the feed's log.
    `short`: blows that last are a tenth as long.  `folder`: where the result is written; None: it is not.

    Raises AssertionError with the end of the feed's log where it does not come to flow or to its end.
    """
    with contextlib.ExitStack() as stack:
        place = logs or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-chaos-")))
        disk = stack.enter_context(SmallDisk(place / "small-disk"))
        source, target = _servers(stack, pair)
        outcome = Outcome(NAME, {"source": source, "target": target})
        wires = stack.enter_context(Wire(source.port)), stack.enter_context(Wire(target.port))
        rig = stack.enter_context(contextlib.closing(Rig(source, target, place, "chaos", **_options(disk))))
        workload, aim = Several(Mix(), Churn(), Family()), Target(target, rig.schema)
        rng = random.Random(seed)
        work = Steady(workload, source, rig.schema, seed, RATE)
        flow = stack.enter_context(contextlib.closing(Flow(rig)))
        rig.make(workload)
        flow.prepare()
        work.prepare()
        aim.admit(rig.tables)
        rig.start_at = rig.here()
        rig.source_url = rig.source_url.replace(f":{source.port}/", f":{wires[0].port}/")
        rig.target_url = aim.url(wires[1].port)
        history = stack.enter_context(Recorder(target.url(), [f"{rig.schema}.{table}" for table in rig.tables]))
        checkpoints = stack.enter_context(Checkpoints(target, rig.name))
        feed = stack.enter_context(Supervised(rig))
        usage = stack.enter_context(Usage(lambda: feed.pids, SAMPLE_SECONDS))
        acts = Blows(feed, source, aim, wires, disk, checkpoints, rng, short=short)
        hour = Hour(acts, flow, work, rng)
        work.start()
        assert flow.until(WAIT_SECONDS, work.check) is not None, f"no rows flow at all\n{feed.said()}"
        hour.run((kind for kind in kinds or deck(rng) if kind not in acts.left_out), minutes)
        work.stop()
        seconds = [(sample.at, sample) for sample in usage.samples]
        code = feed.stop(again=False)
        assert code == 0, f"exit code {code} after SIGTERM\n{feed.said()}"
        rig.reconnect()
        history.reconnect(target.url())
        rig.catch_up(CATCH_UP_SECONDS)
        events = list(history.events())
        result = Result(
            pair=pair,
            minutes=round(seconds[-1][0] / 60, 1) if seconds else minutes,
            seed=seed,
            rate=RATE,
            changes=work.changes,
            cut=work.cut,
            history=len(events),
            checkpoints=checkpoints.seen,
            starts=feed.starts,
            differences=rig.differences().total,
            unique_violations=aim.unique_violations(),
            parked=rig.parked(),
            violations=[str(violation) for violation in recorder.check(events, workload.deleted)],
            backward=checkpoints.backward,
            unasked=feed.unasked,
            left_out=acts.left_out,
            memory=[measured(name, usage.samples, peak) for name, peak in sorted(usage.peak_bytes.items())],
            blows=hour.blows,
        )
        if folder is not None:
            outcome.write({"result": result, "met": not result.faults, "shown": result.shown(_curves(usage))}, folder)
        return result


def _servers(stack: contextlib.ExitStack, pair: str) -> tuple[Server, Server]:
    """Both keep through a SIGKILL what they have acknowledged (a PostgreSQL target as far as the feed asks it to)."""
    one, two = pair.split(":")
    hall = POSTGRES_HALL if two == "postgres" else MYSQL_HALL
    return (
        stack.enter_context(SERVERS[one](durable=True)),
        stack.enter_context(SERVERS[two](list(hall), durable=True)),
    )


def _options(disk: SmallDisk) -> dict[str, Any]:
    return {"lanes": 4, "batch_rows": 200} | ({} if disk.missing else {"journal": str(disk.folder / "journal")})


def _curves(usage: Usage) -> dict[str, list[tuple[float, float]]]:
    """(minutes, MB), thinned by keeping the largest of neighbours."""
    curves = {}
    for name in usage.peak_bytes:
        points = usage.curve(name)
        step = max(len(points) // CURVE_POINTS, 1)
        parts = [points[n : n + step] for n in range(0, len(points), step)]
        curves[name] = [(round(part[0][0] / 60, 2), round(max(mb for _, mb in part), 1)) for part in parts]
    return curves

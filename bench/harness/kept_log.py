"""The log of a PostgreSQL source from one place on, kept so that readers may begin there again and again.

A slot follows what its reader has confirmed, and a feed is given one where the log ends.  So one slot is made before a
backlog and never read; each reader gets a copy of it, and a feed the place too, in its bookkeeping.  The publication is
made before it, since the log is decoded by the catalogue as it was at each place.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.harness.rig import tidelock
from bench.harness.servers import Postgres, Server
from bench.harness.tidelock import TidelockFailed
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.postgres.logical.positions import lsn_of
from tidelock.engine.model.records import Position

KEPT: Final = "kept"
INIT_SECONDS: Final = 300.0  # a feed may have thousands of tables
CHECKPOINT: Final = "tidelock.tidelock_checkpoint"
_POSITION: Final = msgspec.json.Decoder(Position)


class KeptLog:
    """The log of `tables` from now on.  `feed`: the name of the feed that reads it, or of many that take turns.

    `publication`: of the tables, as that feed has it.
    """

    def __init__(self, source: Postgres, database: str, feed: str, tables: Sequence[str]) -> None:
        self._source, self._database = source, database
        self.feed, self.publication = feed, slot_name(feed)
        self._slot = f"{KEPT}_{database}"
        source.execute(
            f"CREATE PUBLICATION {self.publication} FOR TABLE {', '.join(tables)}"
            " WITH (publish_via_partition_root = true)",
            database=database,
        )
        ((place,),) = source.execute(
            "SELECT lsn::text FROM pg_create_logical_replication_slot($1, 'pgoutput')", self._slot, database=database
        )
        self._place = lsn_of(place)

    def give(self, slot: str) -> None:
        """Makes a slot of this name that keeps the log from the place on; one that has the name is dropped."""
        for statement, names in (
            ("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", (slot,)),
            ("SELECT pg_copy_logical_replication_slot($1, $2)", (self._slot, slot)),
        ):
            self._source.execute(statement, *names, database=self._database)

    def begin(self, path: Path, target: Server) -> None:
        """Makes the bookkeeping of the feed in `path` at a target that has none, with the place as its checkpoint.
        Raises TidelockFailed."""
        done = tidelock("init", "--apply", str(path), seconds=INIT_SECONDS)
        if done.code:
            raise TidelockFailed(f"`tidelock init --apply` ended with exit code {done.code}:\n{done.out}\n{done.err}")
        first, second = ("$1", "$2") if isinstance(target, Postgres) else ("%s", "%s")
        ((stored,),) = target.execute(f"SELECT position FROM {CHECKPOINT} WHERE feed = {first}", self.feed)
        place = msgspec.structs.replace(_POSITION.decode(stored), offset=self._place)
        words = msgspec.json.encode(place).decode()
        target.execute(f"UPDATE {CHECKPOINT} SET position = {first} WHERE feed = {second}", words, self.feed)
        self.give(slot_name(self.feed))

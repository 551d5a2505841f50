"""The feed from a spoke to the arbiter of conflicts: each conflict is decided as its table's policy says, the arbiter's
row is told, and what lost is kept."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from bench.harness.rig import Rig
from bench.harness.servers import Postgres, Server
from tidelock.adapters.postgres.target.row_writers import WritersSql

PROOF = pytest.mark.proof
PAIRS = [
    ("mysql", "mariadb"),
    ("mariadb", "postgres_source"),
    pytest.param("postgres_source", "other_mysql", marks=PROOF),
    pytest.param("mariadb", "mysql", marks=PROOF),
]
OPERATOR = 4
UNLIKE = ("park", "verdict", "merge")
LATEST = {"default": "latest", "version": "v"}
GROUPS = [{"columns": [name], "policy": policy} for name, policy in (("n", "delta"), ("v", "max"), ("low", "min"))]
POLICIES: dict[str, dict[str, Any]] = {
    "stop": {},
    "arrival": {"default": "arrival"},
    "arbiter": {"default": "arbiter"},
    "spoke": {"default": "spoke"},
    "latest": LATEST,
    "delete_wins": {"default": "delete wins", "version": "v"},
    "merged": {"default": "arbiter", "groups": [*GROUPS, {"columns": ["u"], "policy": "arrival"}]},
}
BY_TIME: dict[str, dict[str, Any]] = {"timed": {"default": "latest"}}
COLUMNS = "id int PRIMARY KEY, u varchar(20) UNIQUE, n int, v int, low int"
Made = Callable[[str, str], "Up"]


class Up:
    """A feed to an arbiter, a table for each policy."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.books = f"{rig.schema}_books"
        rig.options.update(
            schema=self.books,
            sites={"source": "spoke", "target": "arbiter", "sister": f"{rig.name}-back"},
            conflicts={"arbiter": "arbiter"},
        )

    def tables(self, names: list[str], *, child: bool = False) -> None:
        """The tables of these policies, with rows; `child`: and one that refers to the first."""
        rig = self.rig
        rig.rules = [{"source": f"{rig.schema}.{name}", "conflicts": (POLICIES | BY_TIME)[name]} for name in names]
        for name in names:
            rig.table(name, COLUMNS)
            if isinstance(rig.source, Postgres):
                rig.at_source(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
        if child:
            rig.rules = [*rig.rules, {"source": f"{rig.schema}.child", "conflicts": {"default": "arbiter"}}]
            parent = f"FOREIGN KEY (parent) REFERENCES {rig.schema}.{names[0]} (id)"
            rig.table("child", f"id int PRIMARY KEY, parent int, {parent}")
        rig.start_at = rig.here()
        rig.begin_here()
        rows = ", ".join(f"({key}, 'u{key}', 100, 5, 5)" for key in (1, 2, 3, 4, 6, 8))
        rig.at_source(*(f"INSERT INTO {name} VALUES {rows}" for name in names))
        rig.catch_up()

    def watch_verdicts(self) -> None:
        """Keep the verdicts from here on."""
        if isinstance(self.rig.target, Postgres):
            self.rig.rows(f"SELECT pg_create_logical_replication_slot('{self.rig.schema}_told', 'test_decoding')::text")
            return
        watched = f"{self.books}.tidelock_verdicts"
        self.rig.at_target(
            f"CREATE TABLE {self.books}.told AS SELECT * FROM {watched}",
            f"CREATE TRIGGER {self.books}.watch AFTER INSERT ON {watched} FOR EACH ROW INSERT INTO {self.books}.told "
            "VALUES (NEW.feed, NEW.grp, NEW.epoch, NEW.batch, NEW.ordinal, NEW.table_schema, NEW.table_name, "
            "NEW.row_key, NEW.image)",
        )

    def close(self) -> None:
        """Leave no slot: it would hold back the catalogue for all."""
        if isinstance(self.rig.target, Postgres):
            ours = f"FROM pg_replication_slots WHERE slot_name = '{self.rig.schema}_told'"
            self.rig.rows(f"SELECT pg_drop_replication_slot(slot_name)::text {ours}")

    def verdicts(self) -> dict[tuple[str, int], list[tuple[Any, ...] | None]]:
        """The rows that were told, by table and key; None: that there is none."""
        found: dict[tuple[str, int], list[tuple[Any, ...] | None]] = {}
        for table, row_key, image in self._told():
            key = msgspec.msgpack.decode(row_key)
            image = None if image is None else msgspec.msgpack.decode(image)
            found.setdefault((table, int(key["id"])), []).append(_row(image))
        return found

    def _told(self) -> list[tuple[str, bytes, bytes | None]]:
        rig = self.rig
        if not isinstance(rig.target, Postgres):
            rows = rig.rows(f"SELECT table_name, row_key, image FROM {self.books}.told ORDER BY epoch, batch, ordinal")
            return [(table, bytes(key), image) for table, key, image in rows]
        slot = f"{rig.schema}_told"
        found = []
        for (data,) in rig.rows(f"SELECT data FROM pg_logical_slot_peek_changes('{slot}', NULL, NULL)"):
            if "prefix: tidelock.verdict" in data:
                told = msgspec.json.decode(data.partition("content:")[2])
                image = told["image"]
                found.append((told["table_name"], b64decode(told["row_key"]), image and b64decode(image)))
        return found

    def rows(self, table: str) -> dict[int, tuple[Any, ...]]:
        found = self.rig.rows(f"SELECT CONCAT(id,''), u, CONCAT(n,''), CONCAT(v,''), CONCAT(low,'') FROM {table}")
        return {int(id_): (u, int(n), int(v), int(low)) for id_, u, n, v, low in found}

    def kept(self, table: str) -> dict[int, set[str]]:
        """Conflicts in which something lost, as `type: outcome`, by key."""
        found: dict[int, set[str]] = {}
        kept = f"{self.books}.tidelock_conflicts WHERE table_name = '{table}'"
        for key, type_, outcome in self.rig.rows(f"SELECT row_key, type, outcome FROM {kept}"):
            found.setdefault(int(key.removeprefix("id=")), set()).add(f"{type_}: {outcome}")
        return found


def _row(image: dict[str, Any] | None) -> tuple[Any, ...] | None:
    """A row that was told, its numbers as such: columns but the key."""
    if image is None:
        return None
    texts = [image[name] for name in ("u", "n", "v", "low")]
    u, *numbers = [text.decode() if isinstance(text, bytes) else text for text in texts]
    return (u, *map(int, numbers))


@pytest.fixture
def made(make_rig: Callable[..., Rig], request: pytest.FixtureRequest) -> Iterator[Made]:
    feeds: list[Up] = []

    def make(source: str, target: str) -> Up:
        rig = make_rig(request.getfixturevalue(source), request.getfixturevalue(target), "up", lanes=2)
        feeds.append(Up(rig))
        return feeds[-1]

    yield make
    for up in feeds:
        up.close()


def cross(up: Up, table: str) -> None:
    """Changes at both ends that neither has seen of the other: one of each type, and one alone."""
    up.rig.at_target(
        f"UPDATE {table} SET n = 110, v = 7, low = 3 WHERE id = 1",
        f"DELETE FROM {table} WHERE id = 2",
        f"UPDATE {table} SET n = 110, v = 7 WHERE id = 3",
        f"DELETE FROM {table} WHERE id = 4",
        f"INSERT INTO {table} VALUES (50, 'arbiter', 1, 7, 5), (60, 'six', 1, 7, 5), (71, 'seven', 1, 7, 5)",
        f"INSERT INTO {table} VALUES (70, 'other', 1, 7, 5)",
    )
    up.rig.at_source(
        f"UPDATE {table} SET n = 101, v = 6, low = 4 WHERE id = 1",
        f"UPDATE {table} SET n = 101, v = 8 WHERE id = 2",
        f"DELETE FROM {table} WHERE id = 3",
        f"DELETE FROM {table} WHERE id = 4",
        f"INSERT INTO {table} VALUES (50, 'spoke', 2, 8, 5)",
        f"UPDATE {table} SET u = 'six', v = 8 WHERE id = 6",
        f"INSERT INTO {table} VALUES (70, 'seven', 2, 8, 5)",
        f"UPDATE {table} SET n = 102 WHERE id = 8",
    )


OURS = {1: ("u1", 110, 7, 3), 2: None, 3: ("u3", 110, 7, 5), 50: ("arbiter", 1, 7, 5), 6: ("u6", 100, 5, 5),
        60: ("six", 1, 7, 5), 70: ("other", 1, 7, 5), 71: ("seven", 1, 7, 5)}  # fmt: skip
THEIRS = {1: ("u1", 101, 6, 4), 2: ("u2", 101, 8, 5), 3: None, 50: ("spoke", 2, 8, 5), 6: ("six", 100, 8, 5),
          60: None, 70: ("seven", 2, 8, 5), 71: None}  # fmt: skip
STANDS: dict[str, dict[int, tuple[Any, ...] | None]] = {
    "stop": OURS,
    "arbiter": OURS,
    "arrival": THEIRS,
    "spoke": THEIRS,
    "latest": {**THEIRS, 1: OURS[1], 3: OURS[3]},
    "delete_wins": {**OURS, 3: None, 50: THEIRS[50]},
    "merged": {**OURS, 1: ("u1", 111, 7, 3)},
}
KEPT: dict[str, dict[int, set[str]]] = {
    "stop": {
        1: {"update_origin_differs: park"}, 2: {"update_missing: park"}, 3: {"delete_origin_differs: park"},
        50: {"insert_exists: park"}, 6: {"update_exists: park"}, 70: {"insert_exists: park"},
    },
    "arrival": {
        1: {"update_origin_differs: write"}, 2: {"update_missing: write"}, 3: {"delete_origin_differs: write"},
        50: {"insert_exists: write"}, 6: {"update_exists: displaced"},
        70: {"insert_exists: write", "multiple_unique_conflicts: displaced"},
    },
}  # fmt: skip
KEPT["merged"] = {1: {"update_origin_differs: merge"}, 2: {"update_missing: verdict"}}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_conflict_under_every_policy(source: str, target: str, made: Made) -> None:
    """A verdict tells the row that stands wherever that is not the spoke's, and there alone."""
    up = made(source, target)
    names = list(POLICIES)
    up.tables(names)
    up.watch_verdicts()
    for name in names:
        cross(up, name)
    assert up.rig.catch_up_code() == OPERATOR
    told = up.verdicts()
    for name in names:
        rows, kept = up.rows(name), up.kept(name)
        assert {key: rows.get(key) for key in STANDS[name]} == STANDS[name], name
        assert rows[8] == ("u8", 102, 5, 5) and 4 not in rows, "what is in no conflict goes on"
        assert kept | KEPT.get(name, {}) == kept and 4 not in kept, "both deleted 4, so nothing is lost"
        unlike = [key for key, words in kept.items() if any(word.endswith(UNLIKE) for word in words)]
        assert {key: row for (table, key), row in told.items() if table == name} == {
            key: [STANDS[name][key]] for key in unlike
        }, name
    assert up.rig.parked() == 8


def test_what_waits_behind_a_failed_row_is_told_too_and_an_operator_decides(made: Made) -> None:
    """And a child whose parent is gone is a conflict, which holds nothing up."""
    up = made("mysql", "mariadb")
    rig = up.rig
    up.tables(["stop"], child=True)
    up.watch_verdicts()
    rig.at_target("UPDATE stop SET n = 7 WHERE id = 1", "DELETE FROM stop WHERE id = 2")
    rig.at_target("INSERT INTO child VALUES (9, 4)")
    rig.at_source("UPDATE stop SET n = 8 WHERE id = 1", "INSERT INTO child VALUES (1, 2), (2, 3)")
    rig.at_source("DELETE FROM stop WHERE id = 4")
    assert rig.catch_up_code() == OPERATOR
    rig.at_source("UPDATE stop SET n = 9 WHERE id = 1", "UPDATE stop SET n = 9 WHERE id = 3")
    assert rig.catch_up_code() == OPERATOR
    assert up.rows("stop")[3] == ("u3", 9, 5, 5) and up.rows("stop")[1] == ("u1", 7, 5, 5)
    assert rig.rows("SELECT CONCAT(id, '') FROM child ORDER BY id") == [("2",), ("9",)]
    told = rig.rows(f"SELECT table_name, image IS NULL FROM {up.books}.told ORDER BY table_name")
    assert [(table, int(none)) for table, none in told] == [("child", 1), ("stop", 0), ("stop", 0), ("stop", 0)]
    assert rig.parked() == 3
    lost = {(row["type"], row["outcome"]): row["id"] for row in rig.command("conflicts", "list", "@", "--json").json}
    assert lost.keys() == {
        ("update_origin_differs", "park"), ("foreign_key", "verdict"), ("foreign_key", "park")
    }  # fmt: skip
    assert rig.command("rows", "skip", "@", lost.pop(("foreign_key", "park")).rpartition(":")[0]).code == 0
    seen = rig.command("status", "@", "--json").json
    assert {(one["type"], one["outcome"]) for one in seen["conflicts"]} >= lost.keys()
    wanted = lost["update_origin_differs", "park"]
    assert "spoke" in rig.command("conflicts", "show", "@", wanted).out
    said = rig.command("conflicts", "apply", "@", wanted)
    assert said.code == 0 and "the row is written; its failed row is queued" in said.out, said
    assert up.rows("stop")[1] == ("u1", 8, 5, 5)
    assert rig.catch_up_code() == OPERATOR and rig.parked() == 1
    assert rig.command("rows", "retry", "@", "--all").code == 0
    assert rig.catch_up_code() == 0
    assert up.rows("stop")[1] == ("u1", 9, 5, 5)


def test_the_later_commit_stays_where_no_column_tells(made: Made) -> None:
    """Of the spoke's own changes its log has the order, whenever they came (row 3)."""
    up = made("mysql", "postgres_source")
    rig = up.rig
    up.tables(["timed"])
    rig.at_target("UPDATE timed SET n = 7 WHERE id = 1")
    rig.at_source("UPDATE timed SET n = 8 WHERE id IN (1, 2)", "UPDATE timed SET n = 8 WHERE id = 3")
    rig.at_source("SET sql_log_bin = 0", "UPDATE timed SET n = 5 WHERE id = 3", "SET sql_log_bin = 1")
    rig.at_source("UPDATE timed SET n = 6 WHERE id = 3")
    rig.at_target("UPDATE timed SET n = 7 WHERE id IN (2, 4)")
    rig.catch_up()
    assert {key: row[1] for key, row in up.rows("timed").items()} == {1: 8, 2: 7, 3: 6, 4: 7, 6: 100, 8: 100}
    assert up.kept("timed") == {
        1: {"update_origin_differs: write"}, 2: {"update_origin_differs: verdict"}, 3: {"update_origin_differs: write"}
    }  # fmt: skip
    rig.at_source("UPDATE timed SET n = 9 WHERE id = 8")
    rig.catch_up()
    writers = WritersSql(up.books, rig.name)
    told = {}
    for key, xid in rig.rows("SELECT id::text, xmin::text FROM timed"):
        (answer,) = rig.rows(writers.writer(xid))
        told[int(key)] = writers.told(answer)
    assert {key: writer.by.value for key, writer in told.items()} == {
        1: "spoke", 2: "arbiter", 3: "spoke", 4: "arbiter", 6: "spoke", 8: "spoke"
    }  # fmt: skip
    assert 0 < told[3].at_us < told[8].at_us
    assert rig.rows(f"SELECT count(*)::text FROM {up.books}.tidelock_progress") == [("0",)], "they were noted"


@PROOF
def test_an_arbiter_that_keeps_no_times_of_commits_decides_by_other_policies(
    make_rig: Callable[..., Rig], mysql: Server
) -> None:
    with Postgres(["--track-commit-timestamp=off"]) as server:
        up = Up(make_rig(mysql, server, "up", lanes=2))
        up.tables(["arrival"])
        up.rig.at_target("UPDATE arrival SET n = 7 WHERE id = 1")
        up.rig.at_source("UPDATE arrival SET n = 8 WHERE id = 1")
        up.rig.catch_up()
        assert up.rows("arrival")[1][1] == 8
        up.rig.rules = [{"source": f"{up.rig.schema}.arrival", "conflicts": BY_TIME["timed"]}]
        said = up.rig.command("run", "@", "--until-caught-up")
        assert said.code == 1 and "Set track_commit_timestamp = on" in said.err, said


def test_both_feeds_of_a_pair_name_one_arbiter(made: Made) -> None:
    """Its advice, followed, lets the feed run."""
    up = made("mysql", "mariadb")
    rig = up.rig
    up.tables(["stop"])
    for conflicts, words in (({"arbiter": "spoke"}, "names spoke as arbiter"), (None, "decides no conflicts")):
        rig.options["conflicts"] = conflicts
        if conflicts is None:
            del rig.options["conflicts"]
        said = rig.command("run", "@", "--until-caught-up")
        assert said.code == 1 and words in said.err, said
        assert "another feed names arbiter as arbiter" in said.err
    (advised,) = re.findall(r"UPDATE .* WHERE site = '\w+'", said.err)
    rig.at_target(advised)
    rig.catch_up()

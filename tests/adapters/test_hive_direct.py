"""Merges without Spark against a model of rows and versions: spool, marks, buckets, parts of days, files."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from bench.harness.namespace import mounting
from bench.harness.small_disk import SmallDisk
from tidelock.adapters.config.loader import load
from tidelock.adapters.config.url import parse
from tidelock.adapters.hive import bucket_count, closed_parts
from tidelock.adapters.hive.buckets import bucket, spellings
from tidelock.adapters.hive.closed_parts import Plan
from tidelock.adapters.hive.direct import Merge
from tidelock.adapters.hive.durable import secure
from tidelock.adapters.hive.manifest import Manifest, Stored, TableState
from tidelock.adapters.hive.marks import Marks
from tidelock.adapters.hive.merger import VERSION_COLUMNS, Broken
from tidelock.adapters.hive.merging import BUCKET, PART
from tidelock.adapters.hive.part_files import PartFiles, schema_of
from tidelock.adapters.hive.run import NoRoom, has_room
from tidelock.adapters.hive.spool import Spool
from tidelock.adapters.hive.spread import growing
from tidelock.adapters.hive.values import hive_columns
from tidelock.adapters.hive.warehouse import WrittenParts
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Column, Kind, Position, RowChange, Shape, TableName, Transaction

NO_SPARK: Any = None  # all is on this disk
DAY = 86_400_000_000
ONE = Shape(TableName("s", "t"), (Column("id", Kind.INT, length=8), Column("note", Kind.TEXT)), ("id",))
TWO = Shape(
    TableName("s", "t"),
    (Column("a", Kind.TEXT), Column("id", Kind.INT, length=4), Column("note", Kind.TEXT)),
    ("a", "id"),
)
Row = tuple[Any, ...]


class Model:
    """Rows by key, and versions as (row, from, to, op); changes are drawn at random, in transactions."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape, self.rng = shape, random.Random(seed)
        self.width = len(shape.primary_key)
        self.rows: dict[Row, Row] = {}
        self.open: dict[Row, tuple[Row, int, str]] = {}
        self.closed: list[tuple[Row, int, int, str]] = []
        self.number = self.now = 0

    def key(self) -> Row:
        number = self.rng.randrange(60)
        return (number,) if self.width == 1 else ("xyz"[number % 3], number)

    def batches(self, count: int) -> Iterator[LogBatch]:
        for _ in range(count):
            self.now += self.rng.choice([0, 1_000_000, DAY // 3])
            self.number += 1
            before, changes = dict(self.rows), [self.change() for _ in range(self.rng.randrange(1, 6))]
            last = {}
            for change in changes:
                op = "insert" if change.before is None else "delete" if change.after is None else "update"
                for row in (change.before, change.after):
                    if row is not None:
                        last[row[: self.width]] = op
            for key, op in last.items():
                self.version(key, key in before, op)
            since, to = (Position("log.000001", number) for number in (self.number - 1, self.number))
            transactions = (Transaction("log.000001", self.number, 0, commit_us=self.now + DAY),)
            yield LogBatch(since, to, transactions, tuple(changes), {0: self.shape})

    def change(self) -> RowChange:
        key, text = self.key(), f"note {self.rng.random()}"
        old, new = self.rows.pop(key, None), (*key, text)
        other = self.key()
        if old is not None and self.rng.random() < 0.3:
            return RowChange(0, old, None, 0)
        if old is not None and other not in self.rows and self.rng.random() < 0.4:  # the key moves
            new = (*other, text)
        self.rows[new[: self.width]] = new
        return RowChange(0, old, new, 0)

    def version(self, key: Row, existed: bool, op: str) -> None:
        if existed or key in self.open:
            row, since, made = self.open.pop(key)
            self.closed.append((row, since, self.now + DAY, made))
        if key in self.rows:
            self.open[key] = (self.rows[key], self.now + DAY, op)


@pytest.mark.parametrize("shape", [ONE, TWO])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(1, 4))])
def test_merges_equal_a_model(shape: Shape, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table gets more buckets on the way."""
    monkeypatch.setattr(closed_parts, "SMALL_BYTES", 0)
    model, columns = Model(shape, seed), hive_columns(shape)
    history = Stored((*columns, *VERSION_COLUMNS), PART, "parquet")
    state = TableState(shape.primary_key, 1, Stored(columns, BUCKET, "parquet"), history)
    spelled = spellings(columns, shape.primary_key)
    assert spelled is not None
    files = PartFiles(NO_SPARK)
    for merge, buckets in enumerate((1, 2, 2, 8, 8), 1):
        spool = Spool(tmp_path / f"spool{merge}", Position("log.000001", model.number), "fail")
        for batch in model.batches(40):
            spool.add(batch, {0: shape})
        spooled = spool.close()["s.t"]
        marks = Marks(spooled.path, columns, shape.primary_key)
        touched = marks.by_bucket(buckets)
        assert touched is not None
        places = (WrittenParts(str(tmp_path / place), f"m{merge:09}-x", files) for place in ("t", "t_history"))
        written = Merge(marks, touched, *places)
        grown = growing(written, state, buckets) if buckets != state.buckets else (written, state)
        state = grown[0].done(grown[1])
        assert state.buckets == buckets
        rows = read(written.current, state.current)
        assert sorted(rows) == sorted(model.rows.values())
        for part in state.current.parts:
            keys = [row[: len(shape.primary_key)] for row in read(written.current, state.current, part)]
            assert {bucket(key, spelled, buckets) for key in keys} == {int(part)}
        assert state.history is not None
        versions = read(written.history, state.history)
        width = len(columns)
        found = [(row[:width], micros(row[width]), micros(row[width + 1]), row[width + 2]) for row in versions]
        wanted = [*model.closed, *((row, since, None, op) for row, since, op in model.open.values())]
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
        for part in state.history.parts:
            days = {day(row[width + 1]) for row in read(written.history, state.history, part)}
            assert days == ({""} if part.startswith("open") else {part.partition(".")[0]})
    assert state.history is not None and any("." in part for part in state.history.parts)


def read(parts: Any, stored: Stored, part: str = "") -> list[Row]:
    tables = [parts.read(stored, one) for one in ([part] if part else stored.parts)]
    names = schema_of(stored).names
    return [tuple(row[name] for name in names) for table in tables for row in table.to_pylist()]


def micros(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.replace(tzinfo=UTC).timestamp() * 1e6)


def day(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d}" if moment is not None else ""


def test_a_key_that_hive_cannot_hold_is_not_null(tmp_path: Path) -> None:
    """Two rows with such keys would be one."""
    numeric = Column("id", Kind.DECIMAL, precision=5, scale=2, type="numeric(5,2)")
    shape = Shape(TableName("s", "t"), (numeric, Column("n", Kind.DECIMAL, precision=5, type="numeric(5)")), ("id",))
    spool = Spool(tmp_path / "spool", Position("7/1", 1), "null")

    def add(*row: Any) -> None:
        transaction = Transaction("7/s", 2, 0, commit_us=DAY)
        rows = (RowChange(0, None, row, 0),)
        spool.add(LogBatch(Position("7/1", 1), Position("7/1", 2), (transaction,), rows, {0: shape}), {0: shape})

    add("1.50", "NaN")
    with pytest.raises(Broken, match=r"s\.t, before .*: id, of the key"):
        add("NaN", "1")


def test_what_a_manifest_names_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of merges that were not looked at before are secured, and the folders above them."""
    table = tmp_path / "shop.db" / "item"
    for merge in ("m000000001-a", "m000000002-b"):
        (table / merge / "tidelock_bucket=0").mkdir(parents=True)
        (table / merge / "tidelock_bucket=0" / "x.parquet").write_bytes(b"x")
    (tmp_path / "_tidelock" / "lake" / "manifests").mkdir(parents=True)
    stored = Stored((("id", "int"),), BUCKET, "parquet", {"0": "m000000002-b", "1": "m000000001-a"})
    written: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: written.append(os.readlink(f"/proc/self/fd/{file}")))
    manifest = Manifest(2, Position("7/1", 1), {"shop.item": TableState(("id",), 2, stored)})
    secure(parse(f"hive://{tmp_path}", tmp_path), manifest, 1)
    places = [Path(place).relative_to(tmp_path).as_posix() for place in written]
    new = "shop.db/item/m000000002-b"
    assert sorted(places) == sorted([
        ".", "_tidelock/lake/manifests", "shop.db", "shop.db/item", new, f"{new}/tidelock_bucket=0",
        f"{new}/tidelock_bucket=0/x.parquet",
    ])  # fmt: skip


@mounting
def test_a_warehouse_without_room_is_told(tmp_path: Path) -> None:
    """A feed's merge ends with the run, and the next run makes it anew."""
    path = tmp_path / "lake.yaml"
    rows = pyarrow.table({"id": [1, 2]})
    with SmallDisk(tmp_path / "small") as disk:
        path.write_text(f"feed: l\nsource: mariadb://u@h:1\ntarget: hive://{disk.folder}\ntables: [{{source: s.t}}]\n")
        disk.fill()
        with pytest.raises(NoRoom, match="No space left on device") as told, has_room(load(path)):
            PartFiles(NO_SPARK).write(f"{disk.folder}/t", rows)
        assert "Make room there, then `tidelock run FEED`" in told.value.hint
        disk.free()
        with has_room(load(path)):
            assert PartFiles(NO_SPARK).write(f"{disk.folder}/t", rows) > 0


def test_a_day_is_written_again_only_with_as_much_as_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_parts, "SMALL_BYTES", 10)
    day, other = "2026-11-25", {"2026-11-24": 1, "open-0001": 1}

    def planned(sizes: dict[str, int], bytes: int) -> Plan:
        stored = Stored((), PART, "parquet", dict.fromkeys({**sizes, **other}, "m"), {**sizes, **other})
        return closed_parts.plan(stored, day, bytes * 4)

    assert planned({}, 5) == Plan(day, ())
    assert planned({day: 10}, 1) == Plan(day, (day,))
    assert planned({day: 1000}, 100) == Plan(f"{day}.000000001", ())
    assert planned({day: 1000, f"{day}.000000001": 300}, 100) == Plan(day, (f"{day}.000000001", day))
    assert planned({day: 9000, f"{day}.000000001": 300}, 100) == Plan(f"{day}.000000001", (f"{day}.000000001",))
    unknown = Stored((), PART, "parquet", {day: "m000000001-a"})
    assert closed_parts.plan(unknown, day, 1 << 30) == Plan(f"{day}.000000001", ())


def test_a_table_has_as_few_buckets_as_its_size_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_count, "BYTES", 10)
    assert [bucket_count.first(bytes, 16) for bytes in (0, 10, 11, 40, 41, 10_000)] == [1, 1, 2, 4, 8, 16]
    assert [bucket_count.first(bytes, 12) for bytes in (0, 31, 61)] == [3, 6, 12]
    assert [bucket_count.grown(2, bytes, 16) for bytes in (0, 20, 21, 1000)] == [2, 2, 4, 16]
    assert bucket_count.grown(16, 1000, 16) == 16
    assert bucket_count.grown(16, 1000, 8) == 16, "a table never gets fewer"
    assert bucket_count.grown(16, 1000, 24) == 16, "a bucket would be divided between parts of others"

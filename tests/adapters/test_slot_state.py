"""The state of a PostgreSQL source's slot, as an operator is told it: by `status`, by a run's `/metrics` and its view.

What a warning advises is run as it stands, and the warning goes.
"""

from __future__ import annotations

import asyncio
import io
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres
from bench.harness.servers.place import free_port
from bench.harness.tidelock import sample
from tidelock.adapters.cli import watching
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import load
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.operator import feed_control, slot
from tidelock.adapters.operator.feed_control import Status
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.slot_state import SlotState, size
from tidelock.adapters.postgres.logical.session import connect
from tidelock.adapters.runtime import slot_watch
from tidelock.adapters.runtime.progress import Sample, live_view, one_line
from tidelock.adapters.runtime.slot_watch import SlotWatch
from tidelock.adapters.web.metrics import metrics

SEGMENT = 16 << 20
OPERATOR, NOBODY, RUNS = 4, 1, 0
NAME = "tidelock_shop"
FINE = SlotState(name=NAME, wal_status="reserved", retained_bytes=3 << 20, unconfirmed_bytes=56, safe_bytes=60 << 20)


@pytest.fixture
def source() -> Iterator[Postgres]:
    """One whose settings the test changes, and that removes no log before it is told to."""
    with Postgres() as server:
        yield server


def status(rig: Rig) -> Status:
    return asyncio.run(feed_control.status(load(rig.feed)))


def state(rig: Rig) -> SlotState:
    seen = status(rig).slot
    assert seen is not None
    return seen


def limit(source: Postgres, value: str) -> None:
    """As the warnings advise."""
    source.execute(f"ALTER SYSTEM SET max_slot_wal_keep_size = '{value}'")
    source.execute("SELECT pg_reload_conf()")
    until(lambda: source.execute("SHOW max_slot_wal_keep_size") == [(value,)], "the new limit")


def warned(rig: Rig, source: Postgres, words: str) -> Status:
    """Writes log, a segment after the other, until a warning says this."""

    def says_so() -> bool:
        source.execute("SELECT pg_logical_emit_message(false, 'test', 'x')")
        source.execute("SELECT pg_switch_wal()")
        return any(words in warning for warning in status(rig).warnings)

    until(says_so, words)
    return status(rig)


def test_the_slot_of_a_feed_from_its_run_to_its_end(
    make_rig: Callable[..., Rig], source: Postgres, postgres: Postgres
) -> None:
    address = f"127.0.0.1:{free_port()}"
    rig = make_rig(source, postgres, "slot", lanes=2, http=address)
    rig.table("item", "id int PRIMARY KEY")
    assert rig.command("init", "--apply").code == 0
    begun = status(rig)
    assert begun.epoch == 0 and begun.checkpoint is not None
    assert begun.slot is not None and begun.slot.wal_status == "reserved", "it holds the log back already"
    is_seen_by_a_run(rig, address)
    stands_still(rig, source)
    is_in_danger_and_gets_more_room(rig, source)
    limit(source, "16MB")
    source.execute("CHECKPOINT")
    gone = rig.command("status", "--json")
    lost = gone.json["slot"]
    assert (gone.code, lost["wal_status"], lost["retained_bytes"]) == (OPERATOR, "lost", None)
    assert "tidelock resync" in gone.json["warnings"][0]
    source.execute("SELECT pg_drop_replication_slot($1)", slot_name(rig.name))
    gone = rig.command("status")
    assert gone.code == OPERATOR and "the source has none" in gone.out and "tidelock resync" in gone.out
    source.stop()
    away = rig.command("status")
    assert away.code == NOBODY and "not known" in away.out and "NOT RUNNING" in away.out


def is_seen_by_a_run(rig: Rig, address: str) -> None:
    process = rig.run()
    until(lambda: (seen := sample(address)) is not None and seen.slot is not None, "the slot in a run's sample")
    seen = sample(address)
    assert seen is not None and seen.slot is not None
    assert (seen.slot.name, seen.slot.unread, seen.slot.wal_status) == (slot_name(rig.name), "", "reserved")
    until(lambda: state(rig).ours, "a run of ours at the slot")
    told = rig.command("status", "--json")
    assert told.code == RUNS and told.json["slot"]["active_pid"] > 0
    process.stop()


def figures(seen: SlotState) -> tuple[int, int]:
    assert seen.retained_bytes is not None and seen.unconfirmed_bytes is not None
    return seen.retained_bytes, seen.unconfirmed_bytes


def stands_still(rig: Rig, source: Postgres) -> None:
    before = state(rig)
    source.execute("SELECT pg_logical_emit_message(false, 'test', repeat('x', 3000000))")
    source.execute("SELECT pg_switch_wal()")
    after = state(rig)
    kept, unconfirmed = figures(after)
    for old, new in zip(figures(before), (kept, unconfirmed), strict=True):
        assert old + 3_000_000 <= new <= old + 3_000_000 + SEGMENT
    sql = "SELECT (confirmed_flush_lsn - restart_lsn)::int FROM pg_replication_slots WHERE slot_name = $1"
    assert [(kept - unconfirmed,)] == source.execute(sql, slot_name(rig.name)) != [(0,)]
    assert after.active_pid == 0 and after.safe_bytes is None
    assert status(rig).warnings == ()


def is_in_danger_and_gets_more_room(rig: Rig, source: Postgres) -> None:
    limit(source, "96MB")
    little = warned(rig, source, "once the source writes")
    assert little.slot is not None and little.slot.safe_bytes is not None and not little.needs_operator
    assert 0 < little.slot.safe_bytes < figures(little.slot)[0] / 4
    warned(rig, source, "next checkpoint")
    said = rig.command("status")
    assert said.code == NOBODY and "unreserved" in said.out
    advice = re.search(r"warning: .*(ALTER SYSTEM SET max_slot_wal_keep_size = '…'); ", said.out)
    assert advice is not None, said.out
    limit(source, "1GB")
    assert status(rig).warnings == ()


def test_another_reader_is_a_warning(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres
) -> None:
    """Another reader confirms what the feed then never gets."""
    rig = make_rig(postgres_source, postgres, "read", lanes=2)
    rig.table("item", "id int PRIMARY KEY")
    assert rig.command("init", "--apply").code == 0
    name = slot_name(rig.name)
    reading = connect(load(rig.feed).source_url, replication=True, application="walreader")
    try:
        reading.ask(f"START_REPLICATION SLOT {name} LOGICAL 0/0 (proto_version '1', publication_names '{name}')")
        seen = status(rig)
        assert seen.slot is not None and seen.slot.reader == "walreader" and not seen.slot.ours
        (warning,) = seen.warnings
        advised = re.search(r"SELECT pg_terminate_backend\(\d+\);", warning)
        assert advised is not None, warning
        rig.at_source(advised[0])
        until(lambda: status(rig).warnings == (), "nobody who reads it")
    finally:
        reading.close()


# ------------------------------------------------------------------ a source that does not answer


def feed_of(tmp_path: Path, source: str, target: str) -> Feed:
    path = tmp_path / "shop.yaml"
    path.write_text(f"feed: shop\nsource: {source}\ntarget: {target}\ntables: [{{source: a.b}}]\n", encoding="utf-8")
    return load(path)


async def test_a_source_that_says_nothing_holds_no_status_up(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot, "ASK_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        source = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/d?connect_timeout=86400"
        seen = await feed_control.status(feed_of(tmp_path, source, postgres.url(postgres.database("quiet"))))
    assert seen.slot is not None and "gave no answer" in seen.slot.unread
    assert seen.warnings == () and not seen.needs_operator


def test_a_target_that_is_away_does_not_hide_the_slot(
    tmp_path: Path, postgres_source: Postgres, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its log grows while nothing is applied."""
    feed_of(tmp_path, postgres_source.url(postgres_source.database("held")), "postgresql://u@127.0.0.1:1/d")
    with pytest.raises(TargetError):
        watching.status(str(tmp_path / "shop.yaml"), json=False)
    assert f"{NAME}: the source has none" in capsys.readouterr().out


async def test_other_sources_have_no_slot(tmp_path: Path, postgres: Postgres) -> None:
    feed = feed_of(tmp_path, "mysql://u@127.0.0.1:1", postgres.url(postgres.database("none")))
    assert (await feed_control.status(feed)).slot is None


def test_a_watch_keeps_one_session_and_outlives_it(
    tmp_path: Path, postgres_source: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_watch, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(slot_watch, "ASK_SECONDS", 0.02)
    database = postgres_source.database("watched")
    feed = feed_of(tmp_path, postgres_source.url(database), "postgresql://u@127.0.0.1:1/d")
    sessions = "FROM pg_stat_activity WHERE application_name = 'tidelock slot' AND datname = $1"
    watch = SlotWatch(feed.source_url)
    assert watch.shown(Sample()).slot is None
    watch.begin()
    try:
        until(lambda: (seen := watch.shown(Sample()).slot) is not None and seen.missing, "an answer")
        first = postgres_source.execute(f"SELECT pid {sessions}", database)
        assert len(first) == 1
        postgres_source.execute(f"SELECT pg_terminate_backend(pid) {sessions}", database)
        until(lambda: postgres_source.execute(f"SELECT pid {sessions}", database) not in ([], first), "a new session")
        assert len(postgres_source.execute(f"SELECT pid {sessions}", database)) == 1
    finally:
        asyncio.run(watch.end())
    until(lambda: postgres_source.execute(f"SELECT pid {sessions}", database) == [], "the end of the session")


# ------------------------------------------------------------------ words and figures


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({}, ""),
        ({"wal_status": "extended"}, ""),
        ({"safe_bytes": None}, ""),
        ({"active_pid": 7, "reader": "tidelock capture"}, ""),
        ({"wal_status": "unreserved"}, "next checkpoint"),
        ({"wal_status": "lost"}, "tidelock resync"),
        ({"retained_bytes": 300 << 20}, "writes 60 MB more"),
        ({"active_pid": 7}, "another user's program"),
        ({"active_pid": 7, "reader": "psql"}, "psql"),
    ],
)
def test_what_is_a_warning(changed: dict[str, object], word: str) -> None:
    seen = msgspec.structs.replace(FINE, **changed)
    assert word in seen.warning and bool(word) == bool(seen.warning)
    shown = Sample(slot=seen)
    assert (seen.warning in one_line(shown)) if word else ("slot" not in one_line(shown))
    view = io.StringIO()
    Console(file=view, width=300).print(live_view("shop", shown, 1))
    assert f"slot {seen}" in view.getvalue()


def test_metrics_leave_out_what_is_not_known() -> None:
    def read(seen: SlotState) -> dict[str, dict[str, float]]:
        families = text_string_to_metric_families(metrics(Sample(slot=seen), "shop"))
        return {
            family.name.removeprefix("tidelock_slot_"): {
                next((v for k, v in one.labels.items() if k not in ("feed", "slot")), ""): one.value
                for one in family.samples
            }
            for family in families
            if family.name.startswith("tidelock_slot_")
        }

    known = read(FINE)
    assert known["retained_bytes"] == {"": 3 << 20} and known["safe_bytes"] == {"": 60 << 20}
    assert known["wal_status"] == {"reserved": 1, "extended": 0, "unreserved": 0, "lost": 0, "missing": 0}
    assert known["reader"] == {"run": 0, "other": 0, "nobody": 1} and known["answered"] == {"": 1}
    lost = set(read(SlotState(name=NAME, wal_status="lost", unconfirmed_bytes=5)))
    assert "unconfirmed_bytes" in lost and not {"retained_bytes", "safe_bytes"} & lost, "a 0 would look good"
    assert set(read(SlotState(name=NAME, unread="away"))) == {"answered", "age_seconds"}
    assert set(read(SlotState(name=NAME))) == {"answered", "age_seconds", "wal_status"}
    assert "tidelock_slot" not in metrics(Sample(), "shop")


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1536, "1.5 kB"), (60 << 20, "60 MB"), (3 << 30, "3.0 GB")]
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text

"""Triggers that stamp rows at PostgreSQL (`schema.stamped_table`).

An application's insert is stamped, written, and then looked at again: who looked before it waited for a deleter has
looked too early.  The second look is a statement of its own, which at READ COMMITTED sees what was committed meanwhile.
At the higher levels it sees what stood when its transaction began, so a tombstone is inserted there and taken back:
that waits for others, and fails if they have left one (40001, as such transactions must expect).

A feed that leaves a tombstone cannot see a row that is not committed; `bucket` is the lock that lets it wait for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelock.adapters.schema.stamped_table import LONGEST_WAIT_US, StampedTable, Trigger, Words

BUCKETS: Final = 64
CLOCK: Final = "floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_APPLICATION = "current_setting('tidelock.apply', true) IS DISTINCT FROM 'on'"


def bucket(rows: str, key: Sequence[str]) -> tuple[str, str]:
    """Returns the two numbers of the advisory lock of a row's key; `rows`: the quoted table, `key`: its values.

    A key's values are of types whose text is the same in all sessions (`engine.batch.stamp_steps.KEYS`)."""
    literal = rows.replace("'", "''")
    texts = ", ".join(f"{value}::text" for value in key)
    return f"'{literal}'::regclass::oid::int", f"hashtext(concat_ws(',', {texts})) & {BUCKETS - 1}"


def wait_for_clock(time: int) -> str:
    """Returns the statement that waits until the clock has passed a stamp's time (`engine.two_way.stamp.must_wait`): a
    courtesy to sites whose clocks are behind."""
    ahead = f"(SELECT {time} - {CLOCK} + 1) AS ahead(us)"
    return f"SELECT pg_sleep(us / 1000000.0) FROM {ahead} WHERE us BETWEEN 1 AND {LONGEST_WAIT_US}"


def columns(table: StampedTable) -> str:
    """Returns the statement that adds the columns."""
    words = Words(table, "postgres")
    time, site = f"{words.time} bigint NOT NULL DEFAULT 0", f"""{words.stamped_at} varchar(64) COLLATE "C" NOT NULL"""
    return f"ALTER TABLE {words.rows} ADD COLUMN {time}, ADD COLUMN {site} DEFAULT ''"


def tombstones(table: StampedTable) -> list[str]:
    """Returns the statements that make the table of tombstones."""
    words = Words(table, "postgres")
    wanted = words.listed(words.time, words.stamped_at)
    not_null = ", ".join(f"ALTER COLUMN {name} SET NOT NULL" for name in (words.time, words.stamped_at))
    return [
        f"CREATE TABLE {words.dead} AS SELECT {wanted} FROM {words.rows} WITH NO DATA",
        f"ALTER TABLE {words.dead} ADD PRIMARY KEY ({words.listed()}), {not_null}",
        f"ALTER TABLE {words.dead} REPLICA IDENTITY FULL",
    ]


def triggers(table: StampedTable) -> list[Trigger]:
    """Returns the triggers, each with its function."""
    words = Words(table, "postgres")
    return [
        _trigger(table, "tidelock_stamp", "BEFORE INSERT OR UPDATE", _stamp(words)),
        _trigger(table, "tidelock_look", f"AFTER INSERT OR UPDATE OF {words.listed()}", _look(words)),
        _trigger(table, "tidelock_bury", f"AFTER DELETE OR UPDATE OF {words.listed()}", _bury(words)),
    ]


def _trigger(table: StampedTable, name: str, when: str, body: str) -> Trigger:
    words = Words(table, "postgres")
    function = f"{words.quoted(table.name.schema)}.{words.quoted(f'{name}_{table.name.table}')}"
    rights = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp"
    made = f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql {rights} AS $tide${body}$tide$"
    fires = f"{when} ON {words.rows} FOR EACH ROW WHEN ({_APPLICATION}) EXECUTE FUNCTION {function}()"
    return Trigger(name, body, (made, f"CREATE OR REPLACE TRIGGER {name} {fires}"))


def _stamp(words: Words) -> str:
    over = f"(SELECT d.{words.time} + 1 FROM {words.dead} AS d WHERE {words.same('d', 'NEW')})"
    return f"""
BEGIN
  NEW.{words.time} := greatest({CLOCK}, OLD.{words.time} + 1, {over}, {words.floor});
  NEW.{words.stamped_at} := {words.site};
  RETURN NEW;
END
"""


def _look(words: Words) -> str:
    lock = ", ".join(bucket(words.rows, [f"NEW.{key}" for key in words.keys]))
    none = words.listed("0", "''", of="NEW.")
    mark = f"({words.listed(words.time, words.stamped_at)}) VALUES ({none})"
    return f"""
BEGIN
{_unless_key_stays(words)}
  PERFORM pg_advisory_xact_lock_shared({lock});
  IF current_setting('transaction_isolation') NOT LIKE 'read%' THEN
    INSERT INTO {words.dead} {mark} ON CONFLICT DO NOTHING;
    DELETE FROM {words.dead} AS d WHERE {words.same("d", "NEW")} AND d.{words.time} = 0;
  END IF;
  UPDATE {words.rows} AS t SET {words.time} = t.{words.time} FROM {words.dead} AS d
    WHERE {words.same("t", "NEW")} AND {words.same("d", "NEW")} AND d.{words.time} >= t.{words.time};
  RETURN NULL;
END
"""


def _unless_key_stays(words: Words) -> str:
    """Returns the beginning of a trigger that does nothing for an update which leaves the key as it was."""
    return f"""\
  IF TG_OP = 'UPDATE' AND {words.same("OLD", "NEW")} THEN
    RETURN NULL;
  END IF;"""


def _bury(words: Words) -> str:
    time = f"greatest({CLOCK}, OLD.{words.time} + 1, {words.floor})"
    greater = f"(excluded.{words.time}, excluded.{words.stamped_at}) > (d.{words.time}, d.{words.stamped_at})"
    return f"""
BEGIN
{_unless_key_stays(words)}
  INSERT INTO {words.dead} AS d ({words.listed(words.time, words.stamped_at)})
    VALUES ({words.listed(time, words.site, of="OLD.")})
    ON CONFLICT ({words.listed()}) DO UPDATE SET {words.time} = excluded.{words.time},
      {words.stamped_at} = excluded.{words.stamped_at} WHERE {greater};
  RETURN NULL;
END
"""

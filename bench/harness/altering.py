"""The statements that alter tables of a rig's schema at the target, whoever sends them."""

from __future__ import annotations

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, Postgres


class Altering:
    """Those since it was made.  Of PostgreSQL's it tells one of each transaction, else all that the log has."""

    def __init__(self, rig: Rig) -> None:
        self._rig, self._is_postgres = rig, isinstance(rig.target, Postgres)
        if self._is_postgres:
            log = f"{rig.schema}.{rig.schema}_log"
            told = "pg_event_trigger_ddl_commands()"
            found = f"{told} WHERE command_tag = 'ALTER TABLE' AND schema_name = '{rig.schema}'"
            rig.at_target(
                f"CREATE TABLE {log} (xid text, words text)",
                f"CREATE FUNCTION {rig.schema}_note() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO"
                f" {log} SELECT txid_current()::text, object_identity || ': ' || current_query() FROM {found}; END $$",
                f"CREATE EVENT TRIGGER {rig.schema} ON ddl_command_end EXECUTE FUNCTION {rig.schema}_note()",
                f"ALTER EVENT TRIGGER {rig.schema} ENABLE ALWAYS",
            )
        else:
            status = "SHOW MASTER STATUS" if isinstance(rig.target, MariaDb) else "SHOW BINARY LOG STATUS"
            self._file, self._place = rig.rows(status)[0][:2]

    def told(self) -> list[str]:
        """Returns a statement of each transaction."""
        rig = self._rig
        if self._is_postgres:
            return [str(row[0]) for row in rig.rows(f"SELECT min(words) FROM {rig.schema}_log GROUP BY xid")]
        seen = rig.rows(f"SHOW BINLOG EVENTS IN '{self._file}' FROM {self._place}")
        told = [str(row[5]) for row in seen if str(row[2]) == "Query" and f"`{rig.schema}`." in str(row[5])]
        return [words for words in told if "ALTER TABLE" in words or "RENAME TABLE" in words]

    def close(self) -> None:
        """Takes the trigger away."""
        if self._is_postgres:
            self._rig.at_target(f"DROP EVENT TRIGGER {self._rig.schema}")

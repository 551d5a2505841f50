"""MySQL 9 as `make servers` unpacked it, run with its own loader and libraries: nothing is installed."""

from __future__ import annotations

from pathlib import Path

from bench.harness.servers.mysql_family import MySqlFamily
from bench.harness.servers.mysql_tree import mysql_root, mysql_version
from bench.harness.servers.place import ServerMissing, run, template


class MySql(MySqlFamily):
    scheme = "mysql"

    def _program(self) -> list[str]:
        """mysqld with the options that say where its own files are.  Raises ServerMissing."""
        if mysql_version() is None:
            raise ServerMissing(f"MySQL 9 is not unpacked under {mysql_root()}: run `make servers`")
        root = mysql_root()
        (loader,) = root.glob("usr/lib/*/ld-linux-*.so.*")
        return [
            str(loader),
            "--library-path",
            f"{loader.parent}:{root / 'usr/lib/mysql/private'}",
            str(root / "usr/sbin/mysqld"),
            "--no-defaults",
            f"--basedir={root / 'usr'}",
            f"--lc-messages-dir={root / 'usr/share/mysql'}",
            f"--character-sets-dir={root / 'usr/share/mysql/charsets'}",
            f"--plugin-dir={root / 'usr/lib/mysql/plugin'}",
            "--secure-file-priv=",
        ]

    def _template(self) -> Path:
        return template(f"mysql-{mysql_version()}", self.account, self._install)

    def _install(self, data: Path) -> None:
        run([*self._program(), f"--datadir={data}", "--initialize-insecure"], self.account, data.parent)
        (data / "auto.cnf").unlink(missing_ok=True)  # the server's UUID: each copy makes its own

    def _command(self) -> list[str]:
        return [
            *self._program(),
            *self._options(),
            "--mysqlx=OFF",
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            *self.extra,
        ]

    def unique_violations(self) -> int:
        ((count,),) = self.execute(
            "SELECT COALESCE(SUM(SUM_ERROR_RAISED), 0) FROM performance_schema.events_errors_summary_global_by_error"
            " WHERE ERROR_NUMBER IN (1062, 1022, 1586, 1761, 1762)"
        )
        return int(count)

    def failed_on_unique_keys(self) -> list[str]:
        """Returns the digests of all statements that failed: the server keeps no error with a statement's text."""
        failed = self.execute(
            "SELECT SUM_ERRORS, LAST_SEEN, LEFT(DIGEST_TEXT, 300), LEFT(QUERY_SAMPLE_TEXT, 300)"
            " FROM performance_schema.events_statements_summary_by_digest WHERE SUM_ERRORS > 0"
        )
        return [" ".join(map(str, row)) for row in failed]

"""MariaDB as the machine has it installed."""

from __future__ import annotations

import re
from pathlib import Path

from bench.harness.servers.mysql_family import MySqlFamily
from bench.harness.servers.place import program, run, template, version

PACKAGE = "mariadb-server"
# The installer's anonymous users would be chosen before 'name'@'%' for a connection from this machine.
FIRST_STATEMENTS = "DELETE FROM mysql.global_priv WHERE User='' OR Host NOT IN ('localhost', '127.0.0.1');\n"
LOG_FILE_SIZE = "--innodb-log-file-size=96M"


class MariaDb(MySqlFamily):
    scheme = "mariadb"

    @property
    def _statement_errors(self) -> Path:
        return self.data / "sql_errors.log"

    def _template(self) -> Path:
        return template(f"mariadb-{version(program('mariadbd', PACKAGE))}", self.account, self._install)

    def _install(self, data: Path) -> None:
        first = data.parent / "first.sql"
        first.write_text(FIRST_STATEMENTS)
        run(
            [
                program("mariadb-install-db", PACKAGE),
                "--no-defaults",
                f"--datadir={data}",
                f"--extra-file={first}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
                LOG_FILE_SIZE,
            ],
            self.account,
            data.parent,
        )

    def _command(self) -> list[str]:
        return [
            program("mariadbd", PACKAGE),
            "--no-defaults",
            *self._options(),
            LOG_FILE_SIZE,
            "--gtid-strict-mode=ON",
            "--log-slave-updates=ON",
            "--plugin-load-add=sql_errlog",
            f"--sql-error-log-filename={self._statement_errors}",
            "--sql-error-log-size-limit=1G",
            *self.extra,
        ]

    def statement_errors(self) -> str:
        """The log of the errors that statements were answered with, one a line."""
        return self._statement_errors.read_text(encoding="utf-8", errors="replace")

    def unique_violations(self) -> int:
        return len(self.failed_on_unique_keys())

    def failed_on_unique_keys(self) -> list[str]:
        return re.findall(r"^.*ERROR (?:1062|1022|1586|1761|1762):.*$", self.statement_errors(), re.MULTILINE)

"""Base of MariaDB and MySQL: protocol, statements, shutdown."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from bench.harness.servers.database import Connection, Server

ANSWER_SECONDS = 300
DROP_SECONDS = 1


class MySqlConnection(Connection):
    def __init__(self, port: int, user: str, password: str, database: str | None) -> None:
        self._connection = pymysql.connect(
            host="127.0.0.1",
            port=port,
            user=user,
            password=password,
            database=database,
            charset="utf8mb4",
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
            connect_timeout=10,
            read_timeout=ANSWER_SECONDS,
            ssl_disabled=True,  # else the system's authorities are loaded each time, which takes 20 ms
        )

    def execute(self, sql: str, args: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, args or None)
            return list(cursor.fetchall())

    def execute_script(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            while cursor.nextset():
                pass

    @property
    def open(self) -> bool:
        try:
            self._connection.ping(reconnect=False)
        except pymysql.Error:
            return False
        return True

    def close(self) -> None:
        if self._connection.open:
            self._connection.close()


class MySqlFamily(Server):
    accounts = ("mysql",)
    stop_signal = signal.SIGTERM
    discard_signal = signal.SIGKILL  # keeps nothing outside its folder
    user = "root"

    @property
    def socket(self) -> Path:
        return self.folder / "server.sock"

    def connect(self, database: str | None = None, user: str | None = None, password: str = "") -> Connection:
        return MySqlConnection(self.port, user or self.user, password, database)

    def databases(self) -> frozenset[str]:
        return frozenset(str(name) for (name,) in self.execute("SHOW DATABASES"))

    def database_files(self) -> frozenset[str]:
        return frozenset(entry.name for entry in os.scandir(self.data) if entry.is_dir())

    def drop_database(self, name: str) -> None:
        quoted = name.replace("`", "``")
        self.execute(f"SET SESSION lock_wait_timeout = {DROP_SECONDS}")
        with contextlib.suppress(pymysql.Error):
            self.execute(f"DROP DATABASE IF EXISTS `{quoted}`")
        self.execute("SET SESSION lock_wait_timeout = DEFAULT")

    def _options(self) -> list[str]:
        """Options that mean the same to both.  The port is unique on the machine, so it serves as server id."""
        return [
            f"--datadir={self.data}",
            f"--tmpdir={self.folder / 'tmp'}",
            f"--port={self.port}",
            f"--bind-address={self.host}",
            f"--socket={self.socket}",
            f"--pid-file={self.folder / 'server.pid'}",
            f"--log-error={self.log}",
            f"--server-id={self.port}",
            f"--log-bin={self.data / 'binlog'}",
            "--binlog-format=ROW",
            "--binlog-row-image=FULL",
            "--binlog-row-metadata=FULL",
            f"--sync-binlog={int(self.durable)}",
            f"--innodb-flush-log-at-trx-commit={1 if self.durable else 2}",
            "--innodb-buffer-pool-size=256M",
            "--character-set-server=utf8mb4",
            "--local-infile=1",
            "--max-connections=200",
            "--max-allowed-packet=64M",
        ]

"""Real database servers for tests, the demo and benchmarks: private, on loopback, gone when their owner is gone."""

from bench.harness.servers.database import Server
from bench.harness.servers.mariadb import MariaDb
from bench.harness.servers.mysql import MySql
from bench.harness.servers.place import ServerMissing
from bench.harness.servers.postgres import Postgres, Standby, StrangePostgres
from bench.harness.servers.process import ServerFailed

__all__ = ["MariaDb", "MySql", "Postgres", "Server", "ServerFailed", "ServerMissing", "Standby", "StrangePostgres"]

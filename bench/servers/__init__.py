"""Real database servers for tests, the demo and benchmarks: private, on loopback, gone when their owner is gone."""

from bench.servers.database import Server
from bench.servers.mariadb import MariaDb
from bench.servers.mysql import MySql
from bench.servers.place import ServerMissing
from bench.servers.postgres import Postgres
from bench.servers.process import ServerFailed

__all__ = ["MariaDb", "MySql", "Postgres", "Server", "ServerFailed", "ServerMissing"]

"""MySQL and MariaDB as a source: their binlog, read and decoded."""

"""MySQL and MariaDB: reading their binlog, writing their tables."""

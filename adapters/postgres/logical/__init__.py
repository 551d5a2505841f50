"""PostgreSQL as a source: its logical replication stream (`pgoutput`), read, decoded and put together."""

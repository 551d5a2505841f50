"""PostgreSQL's log as a source: logical decoding by `pgoutput`, read over a replication connection."""

"""Reads rows of a MySQL or MariaDB source for a copy beside the stream (design 8): planned, read by Spark or, where
they are few, by one connection, and staged."""

"""DDL of MySQL and MariaDB: what a statement is, and what it becomes at the target."""

USE `event_filter`;
TRUNCATE TABLE t_truncate;

USE `event_filter`;
ALTER TABLE t_alter MODIFY t_bigint BIGINT;

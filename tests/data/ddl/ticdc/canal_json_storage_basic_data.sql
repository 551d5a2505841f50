USE `test`;
ALTER TABLE binary_columns ADD c_new INT;
CREATE TABLE t_null (
    `id` bigint unsigned not null primary key,
    `col` varchar(64) collate utf8mb4_bin not null default ''
);

drop database if exists `common_1`;
create database `common_1`;
use `common_1`;
CREATE TABLE cdc_multi_data_type
(
    id          INT AUTO_INCREMENT,
    t_boolean   BOOLEAN,
    t_bigint    BIGINT,
    t_double    DOUBLE,
    t_decimal   DECIMAL(38, 19),
    t_bit       BIT(64),
    t_date      DATE,
    t_datetime  DATETIME,
    t_timestamp TIMESTAMP NULL,
    t_time      TIME,
    t_year      YEAR,
    t_char      CHAR,
    t_varchar   VARCHAR(10),
    t_blob      BLOB,
    t_text      TEXT,
    t_enum      ENUM ('enum1', 'enum2', 'enum3'),
    t_set       SET ('a', 'b', 'c'),
    t_json      JSON,
    PRIMARY KEY (id)
) ENGINE = InnoDB
  DEFAULT CHARSET = utf8
  COLLATE = utf8_bin;
CREATE TABLE t1
(
    id INT NOT NULL PRIMARY KEY AUTO_INCREMENT,
    c1 INT NOT NULL
);
CREATE VIEW v1 AS
SELECT *
FROM t1
WHERE c1 > 2;
CREATE TABLE users
(
    id INT PRIMARY KEY
);
CREATE TABLE uk_without_pk
(
    id INT,
    a1 INT NOT NULL,
    a3 INT NOT NULL,
    UNIQUE KEY dex1 (a1, a3)
);
CREATE TABLE binlog_insert_bit
(
    a BIT(1) PRIMARY KEY,
    b BIT(64)
);
CREATE TABLE recover_and_insert
(
    id INT PRIMARY KEY,
    a  INT
);
DROP TABLE recover_and_insert;
RECOVER TABLE recover_and_insert;
CREATE TABLE `column_is_null`
(
    `id` int(11) NOT NULL,
    `t`  datetime DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (`id`)
) ENGINE = InnoDB
  DEFAULT CHARSET = utf8mb4
  COLLATE = utf8mb4_bin;
CREATE TABLE time_is_pk
(
    id time(3) NOT NULL,
    t  datetime DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (id)
);

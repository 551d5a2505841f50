USE test;
DROP TABLE IF EXISTS multi_data_type;
CREATE TABLE multi_data_type
(
    id                   INT AUTO_INCREMENT,
    t_tinyint            TINYINT,
    t_tinyint_unsigned   TINYINT UNSIGNED,
    t_smallint           SMALLINT,
    t_smallint_unsigned  SMALLINT UNSIGNED,
    t_mediumint          MEDIUMINT,
    t_mediumint_unsigned MEDIUMINT UNSIGNED,
    t_int                INT,
    t_int_unsigned       INT UNSIGNED,
    t_bigint             BIGINT,
    t_bigint_unsigned    BIGINT UNSIGNED,
    t_boolean            BOOLEAN,
    t_float              FLOAT(6, 2),
    t_double             DOUBLE(6, 2),
    t_decimal            DECIMAL(38, 19),
    t_char               CHAR,
    t_varchar            VARCHAR(10),
    c_binary             binary(16),
    c_varbinary          varbinary(16),
    t_tinytext           TINYTEXT,
    t_text               TEXT,
    t_mediumtext         MEDIUMTEXT,
    t_longtext           LONGTEXT,
    t_tinyblob           TINYBLOB,
    t_blob               BLOB,
    t_mediumblob         MEDIUMBLOB,
    t_longblob           LONGBLOB,
    t_date               DATE,
    t_datetime           DATETIME,
    t_timestamp          TIMESTAMP NULL,
    t_time               TIME,
    t_enum               ENUM ('enum1', 'enum2', 'enum3'),
    t_set                SET ('a', 'b', 'c'),
    t_json               JSON,
    PRIMARY KEY (id)
);
DROP TABLE IF EXISTS multi_charset;
CREATE TABLE multi_charset (
	id INT,
	name varchar(128) CHARACTER SET gbk,
	country char(32) CHARACTER SET gbk,
	city varchar(64),
	description text CHARACTER SET gbk,
	image tinyblob,
	PRIMARY KEY (id)
) ENGINE = InnoDB CHARSET = utf8mb4;
DROP TABLE IF EXISTS test_ddl1;
CREATE TABLE test_ddl1
(
    id INT AUTO_INCREMENT,
    c1 INT,
    PRIMARY KEY (id)
);
DROP TABLE IF EXISTS test_ddl2;
CREATE TABLE test_ddl2
(
    id INT AUTO_INCREMENT,
    c1 INT,
    PRIMARY KEY (id)
);
DROP TABLE IF EXISTS test_ddl;
RENAME TABLE test_ddl1 TO test_ddl;
ALTER TABLE test_ddl
    ADD INDEX test_add_index (c1);
DROP INDEX test_add_index ON test_ddl;
ALTER TABLE test_ddl
    ADD COLUMN c2 INT NOT NULL;
TRUNCATE TABLE test_ddl;
DROP TABLE test_ddl2;
CREATE TABLE test_ddl2
(
    id INT AUTO_INCREMENT,
    c1 INT,
    PRIMARY KEY (id)
);
DROP TABLE IF EXISTS test_ddl3;
CREATE TABLE test_ddl3 (
	id INT,
	名称 varchar(128),
	PRIMARY KEY (id)
) ENGINE = InnoDB;
ALTER TABLE test_ddl3
	ADD COLUMN 城市 char(32);
ALTER TABLE test_ddl3
	MODIFY COLUMN 城市 varchar(32);
ALTER TABLE test_ddl3
	DROP COLUMN 城市;
DROP TABLE IF EXISTS 表1;
DROP TABLE IF EXISTS 表2;
CREATE TABLE 表1 (
	id INT,
	name varchar(128),
	PRIMARY KEY (id)
) ENGINE = InnoDB;
RENAME TABLE 表1 TO 表2;
DROP TABLE IF EXISTS binary_columns;
CREATE TABLE binary_columns
(
    id                   INT AUTO_INCREMENT,
    c_binary             binary(255),
    c_varbinary          varbinary(255),
    t_tinyblob           TINYBLOB,
    t_blob               BLOB,
    t_mediumblob         MEDIUMBLOB,
    t_longblob           LONGBLOB,
    PRIMARY KEY (id)
);

DROP DATABASE IF EXISTS `charset_gbk_test0`;
CREATE DATABASE `charset_gbk_test0` CHARACTER SET utf8mb4;
USE `charset_gbk_test0`;
CREATE TABLE t0 (
	id INT,
	name varchar(128) CHARACTER SET gbk,
	country char(32) CHARACTER SET gbk,
	city varchar(64),
	description text CHARACTER SET gbk,
	image tinyblob,
	PRIMARY KEY (id)
) ENGINE = InnoDB CHARSET = utf8mb4;
CREATE TABLE t1 (
	id INT NOT NULL,
	name varchar(128) CHARACTER SET gbk NOT NULL,
	country char(32) CHARACTER SET gbk,
	city varchar(64),
	description text CHARACTER SET gbk,
	image tinyblob,
	UNIQUE KEY (id, name)
) ENGINE = InnoDB CHARSET = utf8mb4;
CREATE TABLE t2 (
	id INT,
	name varchar(128),
	country char(32),
	city varchar(64),
	description text,
	image tinyblob,
	PRIMARY KEY (id)
) ENGINE = InnoDB CHARSET = gbk;
DROP DATABASE IF EXISTS `charset_gbk_test1`;
CREATE DATABASE `charset_gbk_test1` CHARACTER SET GBK;
USE `charset_gbk_test1`;
CREATE TABLE t0 (
	id INT,
	name varchar(128),
	country char(32),
	city varchar(64),
	description text,
	image tinyblob,
	PRIMARY KEY (id)
) ENGINE = InnoDB;
CREATE TABLE t1 (
	id INT,
	名称 varchar(128),
	PRIMARY KEY (id)
) ENGINE = InnoDB;
CREATE TABLE 表2 (
	id INT,
	name varchar(128),
	PRIMARY KEY (id)
) ENGINE = InnoDB;
RENAME TABLE 表2 TO 表3;
DROP TABLE 表3;
DROP DATABASE IF EXISTS `测试库`;
CREATE DATABASE `测试库` CHARACTER SET GBK;
DROP DATABASE `测试库`;
DROP DATABASE IF EXISTS `test`;
CREATE DATABASE `test`;
USE `test`;
CREATE TABLE finish_mark (
	id int PRIMARY KEY
);

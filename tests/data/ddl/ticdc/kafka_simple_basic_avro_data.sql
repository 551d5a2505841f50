drop database if exists test;
create database test;
use test;
create table t (
    a varchar(5),
    b int,
    c text,
    primary key (a, b)
);
create table tp_int
(
    id          int auto_increment,
    c_tinyint   tinyint   null,
    c_smallint  smallint  null,
    c_mediumint mediumint null,
    c_int       int       null,
    c_bigint    bigint    null,
    constraint pk
        primary key (id)
);
alter table tp_int modify c_tinyint int;
rename table tp_int to tp_int2;
alter table tp_int2 modify column c_smallint smallint unsigned default 2345;
alter table tp_int2 modify c_tinyint varchar(5);
create table tp_unsigned_int (
    id          int auto_increment,
    c_unsigned_tinyint   tinyint   unsigned null,
    c_unsigned_smallint  smallint  unsigned null,
    c_unsigned_mediumint mediumint unsigned null,
    c_unsigned_int       int       unsigned null,
    c_unsigned_bigint    bigint    unsigned null,
    constraint pk
        primary key (id)
);
alter table tp_unsigned_int add column (a int not null default 3);
create table tp_real
(
    id        int auto_increment,
    c_float   float   null,
    c_double  double  null,
    c_decimal decimal null,
    c_decimal_2 decimal(10, 4) null,
    constraint pk
        primary key (id)
);
alter table tp_real modify column c_decimal float;
alter table tp_real drop column c_double;
alter table tp_real add column c_double double default 3.1415926;
create table tp_unsigned_real (
    id                   int auto_increment,
    c_unsigned_float     float unsigned   null,
    c_unsigned_double    double unsigned  null,
    c_unsigned_decimal   decimal unsigned null,
    c_unsigned_decimal_2 decimal(10, 4) unsigned null,
    constraint pk
        primary key (id)
);
alter table tp_unsigned_real alter column c_unsigned_float set default 2020.23333;
alter table tp_unsigned_real alter column c_unsigned_double drop default;
alter table tp_unsigned_real modify column c_unsigned_decimal_2 decimal(8, 4);
create table tp_time
(
    id          int auto_increment,
    c_date      date      null,
    c_datetime  datetime  null,
    c_timestamp timestamp null,
    c_time      time      null,
    c_year      year      null,
    constraint pk
        primary key (id)
);
alter table tp_time modify column c_datetime timestamp;
alter table tp_time add column c_timestamp2 timestamp default current_timestamp;
alter table tp_time modify column c_timestamp2 timestamp default "2024-07-04 15:00:00";
alter table tp_time drop column c_timestamp2;
alter table tp_time add column c_timestamp2 timestamp default now();
alter table tp_time alter column c_timestamp2 drop default;
create table tp_text
(
    id           int auto_increment,
    c_tinytext   tinytext      null,
    c_text       text          null,
    c_mediumtext mediumtext    null,
    c_longtext   longtext      null,
    constraint pk
        primary key (id)
);
create table tp_blob
(
    id           int auto_increment,
    c_tinyblob   tinyblob      null,
    c_blob       blob          null,
    c_mediumblob mediumblob    null,
    c_longblob   longblob      null,
    constraint pk
        primary key (id)
);
create table tp_char_binary
(
    id           int auto_increment,
    c_char       char(16)      null,
    c_varchar    varchar(16)   null,
    c_binary     binary(16)    null,
    c_varbinary  varbinary(16) null,
    constraint pk
        primary key (id)
);
alter table tp_char_binary modify column c_binary binary(24);
create table tp_other
(
    id     int auto_increment,
    c_enum enum ('a','b','c') null,
    c_set  set ('a','b','c')  null,
    c_bit  bit(10)            null,
    c_json json               null,
    constraint pk
        primary key (id)
);
alter table tp_other modify column c_enum enum ('a', 'b', 'c','d') null;
alter table tp_other modify column c_enum enum ('d', 'c', 'b', 'a') null;
alter table tp_other modify column c_set set ('a', 'b', 'c', 'd') null;
alter table tp_other modify column c_bit bit(20) null;
alter table tp_other modify column c_bit bit(1) null;
CREATE TABLE cs_gbk (
	id INT,
	name varchar(128) CHARACTER SET gbk,
	country char(32) CHARACTER SET gbk,
	city varchar(64),
	description text CHARACTER SET gbk,
	image tinyblob,
	PRIMARY KEY (id)
) ENGINE = InnoDB CHARSET = utf8mb4;
CREATE TABLE test_ddl1
(
    id INT AUTO_INCREMENT,
    c1 INT,
    PRIMARY KEY (id)
);
CREATE TABLE test_ddl2
(
    id INT AUTO_INCREMENT,
    c1 INT,
    PRIMARY KEY (id)
);
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
CREATE TABLE 表1 (
	id INT,
	name varchar(128),
	PRIMARY KEY (id)
) ENGINE = InnoDB;
RENAME TABLE 表1 TO 表2;
DROP TABLE 表2;

drop database if exists `bdr_mode`;
create database `bdr_mode`;
use `bdr_mode`;
create table `t1` (id int primary key, name varchar(20));
create table `t2` (id int primary key, name varchar(20));
create table t3(
    id int primary key,
    name varchar(255),
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP COMMENT '创建时间'
)
PARTITION BY RANGE (id)
(
    PARTITION p0 VALUES LESS THAN (100),
    PARTITION p1 VALUES LESS THAN (200),
    PARTITION p2 VALUES LESS THAN (300),
    PARTITION p3 VALUES LESS THAN (400)
);
create table t4(
    id int primary key,
    name varchar(255),
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP COMMENT '创建时间',
    UNIQUE KEY `idx_name_id` (`name`,`id`)
)
PARTITION BY RANGE (id)
(
    PARTITION p0 VALUES LESS THAN (100),
    PARTITION p1 VALUES LESS THAN (200),
    PARTITION p2 VALUES LESS THAN (300),
    PARTITION p3 VALUES LESS THAN (400)
);
CREATE VIEW tv3 AS
SELECT name
FROM t3
WHERE name != "John";
CREATE VIEW tv4 AS
SELECT name
FROM t4
WHERE name != "Emma";
DROP VIEW tv4;
ALTER TABLE t3 COMMENT = 'test comment';
ALTER TABLE t3 COMMENT = 'test comment 2';
ALTER TABLE t3 ADD PARTITION (PARTITION p4 VALUES LESS THAN (500));
ALTER TABLE t3 ALTER COLUMN name SET DEFAULT 'test';
ALTER TABLE t3 ADD COLUMN age int;
ALTER TABLE t3 ADD COLUMN gender varchar(255) not null default 'male';
ALTER TABLE t3 ADD INDEX idx_name (name);
ALTER TABLE t3 ADD INDEX idx_name_age (name, age);
ALTER TABLE t3 DROP INDEX idx_name_age;
ALTER TABLE t3 RENAME INDEX idx_name TO idx_name_new;
ALTER TABLE t3 ALTER INDEX idx_name_new INVISIBLE;
ALTER TABLE t3 ALTER INDEX idx_name_new VISIBLE;
ALTER TABLE t4 DROP INDEX idx_name_id;

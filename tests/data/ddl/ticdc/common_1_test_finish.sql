USE common_1;
create database common;
CREATE VIEW common.v AS
SELECT id
FROM users;
create table a (a bigint primary key, b int);
create table b like a;
rename table a to common.c, b to a, common.c to b;
create table x (a bigint primary key, b int);
create table common.y (a bigint primary key, b int);
rename table x to z, common.y to x, z to common.y;
create table test1 (a bigint primary key, b int);
create table common.test4 (a bigint primary key, b int);
rename table test1 to common.test2, common.test2 to test3, common.test4 to test1, test3 to common.test4;
create table test5 (a bigint primary key, b int);
create table test6 (a bigint primary key, b int);
alter table test5 rename to test7;
alter table test6 rename to common_1.test8;
CREATE TABLE finish_mark
(
    a int primary key
);

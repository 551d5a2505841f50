drop database if exists `test`;
create database `test`;
use `test`;
create table t1 (
    a int primary key,
    b varchar(64),
    c varchar(64)
);
create table t2 (
    a int primary key,
    b varchar(64),
    c varchar(64)
);
create table t3 (
    a int primary key,
    b varchar(64),
    c varchar(64)
);
drop database if exists `test1`;
create database `test1`;
use `test1`;
create table t1 (
    column0 int primary key,
    column1 varchar(64),
    column2 varchar(64)
);
create table finishmark(id int primary key);

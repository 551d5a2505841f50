drop database if exists `split_region`;
create database `split_region`;
use `split_region`;
create table test1 (id int primary key, val int);
create table test2 (id int primary key, val int);

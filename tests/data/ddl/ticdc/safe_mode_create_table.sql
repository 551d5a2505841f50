drop database if exists `safe_mode`;
create database `safe_mode`;
use `safe_mode`;
create table t(id int key, a varchar(200));

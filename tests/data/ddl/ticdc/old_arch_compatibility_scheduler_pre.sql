drop database if exists `scheduler_upgrade`;
create database `scheduler_upgrade`;
use `scheduler_upgrade`;
create table big_table (
    id int primary key,
    val int
);

use test;
create table table1
(
    id          int auto_increment,
    c_tinyint   tinyint null,
    c_smallint  smallint null,
    c_mediumint mediumint null,
    c_int       int null,
    c_bigint    bigint null,
    constraint pk
        primary key (id)
);
create table table2
(
    id          int auto_increment,
    c_tinyint   tinyint null,
    c_smallint  smallint null,
    c_mediumint mediumint null,
    c_int       int null,
    c_bigint    bigint null,
    constraint pk
        primary key (id)
);
create table table3
(
    id          int auto_increment,
    c_tinyint   tinyint null,
    c_smallint  smallint null,
    c_mediumint mediumint null,
    c_int       int null,
    c_bigint    bigint null,
    constraint pk
        primary key (id)
);
create database workload;
use workload;
create table table1
(
    id          int auto_increment,
    c_tinyint   tinyint null,
    c_smallint  smallint null,
    c_mediumint mediumint null,
    c_int       int null,
    c_bigint    bigint null,
    constraint pk
        primary key (id)
);
create table table2
(
    id          int auto_increment,
    c_tinyint   tinyint null,
    c_smallint  smallint null,
    c_mediumint mediumint null,
    c_int       int null,
    c_bigint    bigint null,
    constraint pk
        primary key (id)
);
create table table3
(
    id          int auto_increment,
    c_tinyint   tinyint null,
    c_smallint  smallint null,
    c_mediumint mediumint null,
    c_int       int null,
    c_bigint    bigint null,
    constraint pk
        primary key (id)
);

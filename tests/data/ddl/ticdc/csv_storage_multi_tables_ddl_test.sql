drop database if exists `multi_tables_ddl_test`;
create database `multi_tables_ddl_test`;
use `multi_tables_ddl_test`;
create table t1 (
 value64  bigint unsigned  not null,
 primary key(value64)
);
rename table t1 to t1_1;
create table t2 (
 value64  bigint unsigned  not null,
 primary key(value64)
);
rename table t2 to t2_2;
create table t1 (
 value64  bigint unsigned  not null,
 value32  integer          not null,
 primary key(value64, value32)
);
create table t2 (
 value64  bigint unsigned  not null,
 value32  integer          not null,
 primary key(value64, value32)
);
create table t3 (
 value64  bigint unsigned  not null,
 value32  integer          not null,
 primary key(value64, value32)
);
create table t4 (
 value64  bigint unsigned  not null,
 value32  integer          not null,
 primary key(value64, value32)
);
create table t5 (
 value64  bigint unsigned  not null,
 value32  integer          not null,
 primary key(value64, value32)
);
create table t6 (
 value64  bigint unsigned  not null,
 value32  integer          not null,
 primary key(value64, value32)
);
create table t7 (
 value64  bigint unsigned  not null,
 value32  integer          not null,
 primary key(value64, value32)
);
create table t8 (
 value64  bigint unsigned  not null,
 value32  integer          not null,
 primary key(value64, value32)
);
create table t10 (
 value64  bigint unsigned  not null,
 value32  integer          not null,
 primary key(value64, value32)
);
create table t11 (
 value64  bigint unsigned  not null,
 value32  integer          not null,
 primary key(value64, value32)
);
rename table t1 to t1_7, t2 to t2_7;
create table rename_mix_normal_1 (
 id int not null,
 value32 int not null,
 primary key(id)
);
create table rename_mix_part_1 (
 id int not null,
 value32 int not null,
 primary key(id)
) partition by hash(id) partitions 2;
rename table rename_mix_normal_1 to rename_mix_normal_1_done, rename_mix_part_1 to rename_mix_part_1_done;
create table rename_mix_part_2 (
 id int not null,
 value32 int not null,
 primary key(id)
) partition by hash(id) partitions 2;
create table rename_mix_normal_2 (
 id int not null,
 value32 int not null,
 primary key(id)
);
rename table rename_mix_part_2 to rename_mix_part_2_done, rename_mix_normal_2 to rename_mix_normal_2_done;
drop table t3, t4;
rename table t5 to t55, t6 to t66;
rename table t55 to t555, t66 to t666;
rename table t8 to t88;
rename table t88 to t888;
rename table t10 to t9;
rename table t9 to t13;
rename table t13 to t14;
rename table t11 to t9;
create table finish_mark(id int primary key);

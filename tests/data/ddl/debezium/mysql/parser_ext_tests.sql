create table t1(col1 binary(20));
create table t2(col varchar(10) binary character set cp1251);
create table t2(col varchar(10) binary character set binary);

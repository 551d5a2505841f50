drop database if exists `new_ci_collation_test`;
create database `new_ci_collation_test`;
use `new_ci_collation_test`;
CREATE TABLE t1 (
    a varchar(20) charset utf8mb4 collate utf8mb4_general_ci primary key,
    b int default 10
);
CREATE TABLE t2 (
    a varchar(10) charset utf8 collate utf8_general_ci, primary key(a),
    b int default 10
);
CREATE TABLE t3 (
    id int primary key auto_increment,
    a varchar(20) charset utf8mb4 collate utf8mb4_general_ci,
    b int default 10
);
CREATE TABLE t4 (
    a int primary key,
    b varchar(10) charset utf8mb4 collate utf8mb4_general_ci,
    c varchar(10) charset utf8 collate utf8_general_ci,
    d varchar(10) not null,
    unique key d(d)
);
CREATE TABLE t5 (
    a varchar(10) charset utf8mb4 collate utf8mb4_bin, primary key(a),
    b int default 10
);
drop index `primary` on t4;
CREATE TABLE tt1 (
                    a varchar(20) charset utf8mb4 collate utf8mb4_0900_ai_ci primary key,
                    b int default 10
);
CREATE TABLE tt2 (
                     a varchar(20) charset utf8mb4 collate utf8mb4_0900_ai_ci,
                     b int default 10, primary key(b)
);
CREATE TABLE tt3 (
                    id int primary key auto_increment,
                    a varchar(20) charset utf8mb4 collate utf8mb4_0900_ai_ci,
                    b int default 10
);
CREATE TABLE tt4 (
                    a int primary key,
                    b varchar(10) charset utf8mb4 collate utf8mb4_0900_ai_ci,
                    c varchar(10) charset utf8mb4 collate utf8mb4_0900_ai_ci,
                    d varchar(10) not null,
                    unique key d(d)
);
drop index `primary` on tt4;

drop database if exists `fail_over_test`;
create database `fail_over_test`;
use `fail_over_test`;
create table t1 (
                    id INT AUTO_INCREMENT PRIMARY KEY,
                    val INT DEFAULT 0,
                    col0 INT NOT NULL
);
create table t2 (
                    id INT AUTO_INCREMENT PRIMARY KEY,
                    val INT DEFAULT 0,
                    col0 INT NOT NULL
);
CREATE TABLE fail_over_test.finish_mark (
                     id INT AUTO_INCREMENT PRIMARY KEY,
                     val INT DEFAULT 0,
                     col0 INT NOT NULL
);

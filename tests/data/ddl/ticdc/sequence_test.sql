drop database if exists `sequence_test`;
create database `sequence_test`;
use `sequence_test`;
CREATE SEQUENCE seq0 start with 1 minvalue 1 maxvalue 999999999999999 increment by 1 nocache cycle;
CREATE TABLE t1 (
    id VARCHAR(255),
    a INT default next value for seq0,
    PRIMARY KEY(id)
);

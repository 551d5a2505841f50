drop database if exists `autorandom_test`;
create database `autorandom_test`;
use `autorandom_test`;
CREATE TABLE table_a (
	id BIGINT AUTO_RANDOM,
	data int,
	PRIMARY KEY(id) clustered
);

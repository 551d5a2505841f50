drop database if exists `test`;
create database `test`;
use `test`;
CREATE TABLE `update_pk` (
  `id` int PRIMARY KEY NONCLUSTERED,
  `pad` varchar(100) NOT NULL
);
CREATE TABLE `update_uk` (
  `id` int PRIMARY KEY NONCLUSTERED,
  `uk` int NOT NULL,
  `pad` varchar(100) NOT NULL,
  UNIQUE KEY `uk` (`uk`)
);

DROP DATABASE IF EXISTS ignore_update_only_columns;
CREATE DATABASE ignore_update_only_columns;
USE ignore_update_only_columns;
CREATE TABLE user_a (
  id INT PRIMARY KEY,
  email VARCHAR(128) NOT NULL,
  name VARCHAR(128),
  version INT,
  updated_at INT,
  UNIQUE KEY uk_email (email)
);
CREATE TABLE user_b (
  id INT PRIMARY KEY,
  email VARCHAR(128) NOT NULL,
  name VARCHAR(128),
  version INT,
  updated_at INT,
  UNIQUE KEY uk_email (email)
);
CREATE TABLE finish_mark (id INT PRIMARY KEY);

DROP DATABASE IF EXISTS `event_filter`;
CREATE DATABASE `event_filter`;
USE `event_filter`;
CREATE TABLE t1 (
  id INT,
  name varchar(128),
  country char(32),
  city varchar(64),
  age INT,
  gender char(32),
  PRIMARY KEY (id)
);
DROP TABLE t1;
CREATE TABLE t_virtual (
    id INT PRIMARY KEY,
    price DECIMAL(10,2),
    quantity INT,
    total_price DECIMAL(10,2) AS (price * quantity) VIRTUAL,
    discount DECIMAL(10,2) AS (CASE WHEN quantity > 10 THEN price * 0.9 ELSE price END) VIRTUAL,
    category VARCHAR(20),
    is_discounted BOOLEAN AS (quantity > 10) VIRTUAL
);
CREATE TABLE t_normal (
                    id INT,
                    name varchar(128),
                    country char(32),
                    city varchar(64),
                    age INT,
                    gender char(32),
                    PRIMARY KEY (id)
);
CREATE TABLE t_truncate (
                    id INT,
                    name varchar(128),
                    PRIMARY KEY (id)
);
CREATE TABLE t_alter
(
    id          INT AUTO_INCREMENT,
    t_boolean   BOOLEAN,
    t_bigint    DECIMAL(38, 19),
    t_double    DOUBLE,
    t_decimal   DECIMAL(38, 19),
    t_bit       BIT(64),
    t_date      DATE,
    t_datetime  DATETIME,
    t_timestamp TIMESTAMP NULL,
    t_time      TIME,
    t_year      YEAR,
    t_char      CHAR,
    t_varchar   VARCHAR(10),
    t_blob      BLOB,
    t_text      TEXT,
    t_enum      ENUM ('enum1', 'enum2', 'enum3'),
    t_set       SET ('a', 'b', 'c'),
    t_json      JSON,
    PRIMARY KEY (id)
) ENGINE = InnoDB
  DEFAULT CHARSET = utf8
  COLLATE = utf8_bin;
CREATE TABLE t_name (
                    id INT,
                    name varchar(128),
                    PRIMARY KEY (id)
);
CREATE TABLE t_name1 (
                    id INT,
                    name varchar(128),
                    PRIMARY KEY (id)
);
CREATE TABLE t_name2 (
                    id INT,
                    name varchar(128),
                    PRIMARY KEY (id)
);
CREATE TABLE t_name3 (
                    id INT,
                    name varchar(128),
                    PRIMARY KEY (id)
);
CREATE TABLE t_rename4 (
                    id INT,
                    name varchar(128),
                    PRIMARY KEY (id)
);
CREATE TABLE t_create (id INT PRIMARY KEY, val INT);
CREATE DATABASE filtered_like_src;
CREATE TABLE filtered_like_src.t_src_like (
  id INT PRIMARY KEY,
  val INT
);
CREATE TABLE event_filter.t_like_from_filtered LIKE filtered_like_src.t_src_like;

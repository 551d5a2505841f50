DROP DATABASE IF EXISTS source_db;
DROP DATABASE IF EXISTS source_extra_db;
CREATE DATABASE source_db;
CREATE DATABASE source_extra_db;
USE source_db;
CREATE TABLE users (
    id INT PRIMARY KEY,
    name VARCHAR(100),
    email VARCHAR(100)
);
CREATE TABLE orders (
    id INT PRIMARY KEY,
    user_id INT,
    amount DECIMAL(10, 2)
);
ALTER TABLE users ADD COLUMN created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP;
CREATE TABLE products (
    id INT PRIMARY KEY,
    name VARCHAR(100),
    price DECIMAL(10, 2)
);
CREATE TABLE products_backup LIKE products;
ALTER TABLE users DROP COLUMN created_at;
ALTER TABLE orders ADD INDEX idx_user_id (user_id);
CREATE TABLE `source_extra_db`.`external_users` LIKE `source_db`.`users`;
CREATE TABLE `source_extra_db`.`external_users_from_default` LIKE `users`;
CREATE VIEW `source_extra_db`.`users_view_from_default` AS
    SELECT `id`, `name`, `email` FROM `users` WHERE `id` <= 2;
CREATE VIEW `source_extra_db`.`orders_column_view_from_default` AS
    SELECT `orders`.`id`, `orders`.`amount` FROM `orders` WHERE `orders`.`id` IN (1, 3);
CREATE TABLE `source_db`.`cross_move_source` (
    id INT PRIMARY KEY,
    value VARCHAR(50)
);
RENAME TABLE `source_db`.`cross_move_source` TO `source_extra_db`.`cross_move_target`;
CREATE TABLE temp_table (
    id INT PRIMARY KEY,
    value VARCHAR(50)
);
RENAME TABLE temp_table TO renamed_table;
CREATE TABLE multi_rename_a (
    id INT PRIMARY KEY,
    value VARCHAR(50)
);
CREATE TABLE multi_rename_b (
    id INT PRIMARY KEY,
    value VARCHAR(50)
);
RENAME TABLE multi_rename_a TO multi_rename_a_new, multi_rename_b TO multi_rename_b_new;
CREATE VIEW `source_db`.`user_order_view` AS
    SELECT `u`.`id`, `u`.`name`, `o`.`amount`
    FROM `source_db`.`users` AS `u`
    JOIN `source_db`.`orders` AS `o` ON `u`.`id` = `o`.`user_id`;
CREATE VIEW `source_db`.`transient_view` AS
    SELECT `id`, `name` FROM `source_db`.`users`;
DROP VIEW `source_db`.`transient_view`;
CREATE TABLE partitioned_events (
    id INT,
    bucket INT NOT NULL,
    value VARCHAR(50),
    PRIMARY KEY (id, bucket)
) PARTITION BY RANGE (bucket) (
    PARTITION p0 VALUES LESS THAN (10),
    PARTITION p1 VALUES LESS THAN (20)
);
ALTER TABLE partitioned_events ADD PARTITION (PARTITION p2 VALUES LESS THAN (30));
ALTER TABLE partitioned_events TRUNCATE PARTITION p0;
ALTER TABLE partitioned_events DROP PARTITION p1;
CREATE TABLE `source_extra_db`.`partitioned_events_like_from_default` LIKE `partitioned_events`;
CREATE TABLE truncate_test (
    id INT PRIMARY KEY,
    data VARCHAR(100)
);
TRUNCATE TABLE truncate_test;
CREATE TABLE to_be_dropped (
    id INT PRIMARY KEY
);
DROP TABLE to_be_dropped;
CREATE TABLE finish_mark (id INT PRIMARY KEY);

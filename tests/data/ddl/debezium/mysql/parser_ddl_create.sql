CREATE USER 'test_crm_debezium'@'%' IDENTIFIED WITH 'mysql_native_password' AS '*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9' PASSWORD EXPIRE NEVER COMMENT '-';
CREATE USER 'jim'@'localhost' ATTRIBUTE '{"fname": "James", "lname": "Scott", "phone": "123-456-7890"}';
CREATE USER 'jim' @'localhost' ATTRIBUTE '{"fname": "James", "lname": "Scott", "phone": "123-456-7890"}';
create table new_t  (like t1);
create table ships(name varchar(255), class_id int, id int);
create table ships_guns(guns_id int, ship_id int);
create table guns(id int, power decimal(7,2), callibr decimal(10,3));
create table ship_class(id int, class_name varchar(100), tonange decimal(10,2), max_length decimal(10,2), start_build year, end_build year(4), max_guns_size int);
create table `some table $$`(id int auto_increment key, class varchar(10), data binary) engine=MYISAM;
create table quengine(id int auto_increment key, class varchar(10), data binary) engine='InnoDB';
create table quengine(id int auto_increment key, class varchar(10), data binary) engine="Memory";
create table quengine(id int auto_increment key, class varchar(10), data binary) engine=`CSV`;
create table quengine(id int auto_increment key, class varchar(10), data binary COMMENT 'CSV') engine=MyISAM;
create table quengine(id int auto_increment key, class varchar(10), data binary) engine=Aria;
create table `parent_table`(id int primary key, column1 varchar(30), index parent_table_i1(column1(20)), check(char_length(column1)>10)) engine InnoDB;
create table child_table(id int unsigned auto_increment primary key, id_parent int references parent_table(id) match full on update cascade on delete set null) engine=InnoDB;
create table `another some table $$` like `some table $$`;
create table `actor` (`last_update` timestamp default CURRENT_TIMESTAMP, `birthday` datetime default CURRENT_TIMESTAMP ON UPDATE LOCALTIMESTAMP);
create table boolean_table(c1 bool, c2 boolean default true);
create table ts_table(
  ts1 TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  ts2 TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE LOCALTIME,
  ts3 TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE LOCALTIMESTAMP,
  ts4 TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP(),
  ts5 TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE LOCALTIME(),
  ts6 TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE LOCALTIMESTAMP(),
  ts7 TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE NOW(),
  ts8 TIMESTAMP(6) NOT NULL,
  ts9 TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6),
  ts10 TIMESTAMP DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP,
  ts11 TIMESTAMP NOT NULL DEFAULT '2038-01-01 00:00:00' ON UPDATE CURRENT_TIMESTAMP
);
create table dt_table(
  dt1 DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  dt2 DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE LOCALTIME,
  dt3 DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE LOCALTIMESTAMP,
  dt4 DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP(),
  dt5 DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE LOCALTIME(),
  dt6 DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE LOCALTIMESTAMP(),
  dt7 DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE NOW(),
  dt10 DATETIME DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP,
  dt11 DATETIME DEFAULT '2038-01-01 00:00:00' ON UPDATE CURRENT_TIMESTAMP
);
create table with_check (c1 integer not null,c2 varchar(22),constraint c1 check (c2 in ('a', 'b', 'c')));
CREATE TABLE genvalue1 (id binary(16) NOT NULL, val char(32) GENERATED ALWAYS AS (hex(id)) STORED, PRIMARY KEY (id));
CREATE TABLE genvalue2 (id binary(16) NOT NULL, val char(32) AS (hex(id)) STORED, PRIMARY KEY (id));
CREATE TABLE genvalue3 (id binary(16) NOT NULL, val char(32) GENERATED ALWAYS AS (hex(id)) VIRTUAL, PRIMARY KEY (id));
CREATE TABLE cast_charset (col BINARY(16) GENERATED ALWAYS AS (CAST('xx' as CHAR(16) CHARACTER SET BINARY)) VIRTUAL);
CREATE TABLE cast_charset (col BINARY(16) GENERATED ALWAYS AS (CAST('xx' as CHAR(16) CHARSET BINARY)) VIRTUAL);
CREATE TABLE check_table_kw (id int primary key, upgrade varchar(256), quick varchar(256), fast varchar(256), medium varchar(256), extended varchar(256), changed varchar(256));
CREATE TABLE sercol1 (id SERIAL, val INT);
CREATE TABLE sercol2 (id SERIAL PRIMARY KEY, val INT);
CREATE TABLE sercol3 (id SERIAL NULL, val INT);
CREATE TABLE sercol4 (id SERIAL NOT NULL, val INT);
CREATE TABLE serval1 (id SMALLINT SERIAL DEFAULT VALUE, val INT);
CREATE TABLE serval2 (id SMALLINT SERIAL DEFAULT VALUE PRIMARY KEY, val INT);
CREATE TABLE serval3 (id SMALLINT(3) NULL SERIAL DEFAULT VALUE, val INT);
CREATE TABLE serval4 (id SMALLINT(5) UNSIGNED SERIAL DEFAULT VALUE NOT NULL, val INT);
CREATE TABLE serial (serial INT);
CREATE TABLE float_table (f1 FLOAT, f2 FLOAT(10), f3 FLOAT(7,4));
CREATE TABLE USER (INTERNAL BOOLEAN DEFAULT FALSE);
create table table_with_visible_index (id int, data varchar(50), UNIQUE INDEX `data_UNIQUE` (`data` ASC) INVISIBLE VISIBLE);
create table table_with_index (id int, data varchar(50), UNIQUE INDEX `data_UNIQUE` (`data` ASC));
create table blob_test(id int, col1 blob(45));
create table žluťoučký (kůň int);
create table column_names_as_aggr_funcs(min varchar(100), max varchar(100), sum varchar(100), count varchar(100));
CREATE TABLE char_table (c1 CHAR VARYING(10), c2 CHARACTER VARYING(10), c3 NCHAR VARYING(10));
create table rack_shelf_bin ( id int unsigned not null auto_increment unique primary key, bin_volume decimal(20, 4) default (bin_len * bin_width * bin_height));
create table invisible_column_test(id int, col1 int INVISIBLE);
create table visible_column_test(id int, col1 int VISIBLE);
create table table_with_buckets(id int(11) auto_increment NOT NULL COMMENT 'ID', buckets int(11) NOT NULL COMMENT '分桶数');
CREATE TABLE foo (c1 decimal(19), c2 decimal(19.5), c3 decimal(0.0), c4 decimal(0.2), c5 decimal(19,2));
CREATE TABLE table_items (id INT, purchased DATE)
    PARTITION BY RANGE( YEAR(purchased) )
        SUBPARTITION BY HASH( TO_DAYS(purchased) )
        SUBPARTITIONS 2 (
        PARTITION p0 VALUES LESS THAN (1990),
        PARTITION p1 VALUES LESS THAN (2000),
        PARTITION p2 VALUES LESS THAN MAXVALUE
    );
CREATE TABLE T1 (
ID INT NOT NULL,
NAME VARCHAR(255),
UNIQUE KEY(ID)
) PARTITION BY KEY() PARTITIONS 2;
CREATE TABLE table_items_with_subpartitions (id INT, purchased DATE)
    PARTITION BY RANGE( YEAR(purchased) )
        SUBPARTITION BY HASH( TO_DAYS(purchased) ) (
        PARTITION p0 VALUES LESS THAN (1990) (
            SUBPARTITION s0,
            SUBPARTITION s1
        ),
        PARTITION p1 VALUES LESS THAN (2000) (
            SUBPARTITION s2,
            SUBPARTITION s3
        ),
        PARTITION p2 VALUES LESS THAN MAXVALUE (
            SUBPARTITION s4,
            SUBPARTITION s5
        )
    );
CREATE TABLE CustomerTable (
    table_type varchar(5)
);
CREATE TABLE tbl (
    col1 LONGTEXT,
    data JSON,
    INDEX idx1 ((SUBSTRING(col1, 1, 10))),
    INDEX idx2 ((CAST(JSON_EXTRACT(data, _utf8mb4'$') AS UNSIGNED ARRAY))),
    INDEX ((CAST(data->>'$.name' AS CHAR(30))))
);
CREATE TABLE `orders_json_2` (
  `id` int NOT NULL AUTO_INCREMENT,
  `reward` json DEFAULT NULL,
  `additional_info` json DEFAULT NULL,
  `created_at` timestamp NULL DEFAULT NULL,
  `updated_at` timestamp NULL DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `idx_order_codes` ((cast(json_extract(`additional_info`,_utf8mb4'$.order_codes') as char(17) array)))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
CREATE TABLE keywords (
    eur VARCHAR(100),
    iso VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
    usa VARCHAR(100),
    jis VARCHAR(100),
    internal INT,
    instant BIT
);
CREATE TABLE T1 (C NATIONAL CHAR);
CREATE TABLE T1 (C GEOMETRY SRID 0);
CREATE TABLE T1 (C POINT SRID 0);
CREATE TABLE T1 (C LINESTRING SRID 0);
CREATE TABLE T1 (C POLYGON SRID 0);
CREATE TABLE T1 (C MULTIPOINT SRID 0);
CREATE TABLE T1 (C MULTILINESTRING SRID 0);
CREATE TABLE T1 (C MULTIPOLYGON SRID 0);
CREATE TABLE T1 (C GEOMETRYCOLLECTION SRID 0);
CREATE TABLE T1 (ID BIGINT, S VARCHAR(100), I INT, CONSTRAINT ABC CHECK (ID < 5) ENFORCED);
CREATE TABLE T1 (ID BIGINT REFERENCES TT (TT_ID) ON DELETE SET DEFAULT);
CREATE TABLE T1 (ID BIGINT REFERENCES TT (TT_ID) ON UPDATE SET DEFAULT);
create table if not exists tbl_signed_unsigned(
  `id` bigint(20) ZEROFILL signed UNSIGNED signed ZEROFILL unsigned ZEROFILL NOT NULL AUTO_INCREMENT COMMENT 'ID',
  c1 int signed unsigned,
  c2 decimal(10, 2) SIGNED UNSIGNED ZEROFILL,
  c3 float SIGNED ZEROFILL,
  c4 double precision(18, 4) UNSIGNED SIGNED ZEROFILL,
  PRIMARY KEY (`id`)
);
CREATE TABLE `daily_intelligences`(
`id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT '',
`partner_code` varchar(32) DEFAULT NULL COMMENT '',
`text` LONGTEXT DEFAULT NULL COMMENT '',
`monitor_time` TIMESTAMP DEFAULT NULL COMMENT '',
`gmt_modify` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP COMMENT '',
`gmt_create` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT '',
PRIMARY KEY (`id`)
) ENGINE=innodb DEFAULT CHAR SET=utf8 COMMENT '';
CREATE TABLE `auth_realm_clients` (
`pk_realm` int unsigned NOT NULL DEFAULT '0',
`fk_realm` int unsigned DEFAULT NULL,
`client_id` varchar(150) NOT NULL,
`client_secret` blob NOT NULL,
PRIMARY KEY (`pk_realm`),
KEY `auth_realms_auth_realm_clients` (`fk_realm`)
) START TRANSACTION ENGINE=InnoDB DEFAULT CHARSET=latin1;
create table `site_checker_b_sonet_group_favorites` (
USER_ID int(11) not null,
GROUP_ID int(11) not null,
DATE_ADD datetime DEFAULT NULL,
primary key (USER_ID, GROUP_ID)
);
CREATE TABLE `table_default_fn`(`quote_id` varchar(32) NOT NULL,`created_at` bigint(20) NOT NULL);
CREATE TABLE `test_table\\`(id INT(11) NOT NULL, PRIMARY KEY (`id`)) ENGINE = INNODB;
CREATE TABLE `\\test_table`(id INT(11) NOT NULL, PRIMARY KEY (`id`)) ENGINE = INNODB;
CREATE TABLE `\\test\\_table\\`(id INT(11) NOT NULL, PRIMARY KEY (`id`)) ENGINE = INNODB;
RENAME TABLE old_table TO tmp_table, new_table TO old_table, tmp_table TO new_table;
RENAME TABLE table_b TO table_a;
RENAME TABLE current_db.tbl_name TO other_db.tbl_name;
rename table debezium_all_types_old to debezium_all_types, test_json_object_old to test_json_object;
truncate table t1;
truncate parent_table;
truncate `#`;
truncate `#!^%$`;
truncate table tbl_without_pk;
create database somedb;
create schema if not exists myschema;
create schema `select` default character set = utf8;
create database if not exists `current_date` character set cp1251;
create database super default character set utf8 collate = utf8_bin character set utf8 collate utf8_bin;
create database super_cs default charset utf8 collate = utf8_bin character set utf8 collate utf8_bin;
create database `ymsun_test1` charset gb18030 collate gb18030_bin;
create database `test` charset binary collate binary;
DELIMITER //
create definer = current_user event if not exists someevent on schedule at current_timestamp + interval 30 minute
on completion preserve do begin insert into test.t1 values (33), (111);select * from test.t1; end//
DELIMITER ;
DELIMITER //
create definer = 'ivan'@'%' event testevent1 on schedule every 1 hour ends '2016-11-05 23:59:00'
do begin select * from test.t2; end//
DELIMITER ;
DELIMITER //
create definer = current_user() event testevent2 on schedule at '2016-11-03 23:59:00'
do begin update test.t2 set 1c = 1c + 1; end//
DELIMITER ;
create index index1 on t1(col1) comment 'test index' comment 'some test' using btree;
create unique index index2 using btree on t2(1c desc, `_` asc);
create index index3 using hash on antlr_tokens(token(30) asc);
create index index4 on antlr_tokens(token(30) asc) lock default;
create index index5 on antlr_tokens(token(30) asc) algorithm default;
create index index6 on antlr_tokens(token(30) asc) algorithm default lock default;
create index index7 on antlr_tokens(token(30) asc) lock default algorithm default;
create index index8 on t1(col1) comment 'test index' using btree;
CREATE INDEX `idx_custom_field_30c4f4a7c529ccf0825b2fac732bebfd843ed764` ON `deals` ((cast(json_unquote(json_extract(`custom_fields`,_utf8mb4'$."30c4f4a7c529ccf0825b2fac732bebfd843ed764".value')) as double)));
CREATE INDEX `idx_custom_field_d3bb7ad91ba729aaa20df0af037cb7ed8ce3ffc8` ON `deals` ((cast(json_unquote(json_extract(`custom_fields`,_utf8mb4'$."d3bb7ad91ba729aaa20df0af037cb7ed8ce3ffc8".value')) as float)));
CREATE LOGFILE GROUP lg1 ADD UNDOFILE 'undo.dat' INITIAL_SIZE = 10M ENGINE = InnoDB;
CREATE LOGFILE GROUP lg1 ADD UNDOFILE 'undo.dat' INITIAL_SIZE = 10000000 ENGINE = NDB;
CREATE SERVER s
FOREIGN DATA WRAPPER mysql
OPTIONS (USER 'Remote', HOST '192.168.1.106', DATABASE 'test');
create tablespace tblsp1 add datafile 'tblsp_work1' use logfile group lg_1 initial_size = 4G engine MYISAM;
create tablespace tblsp2 add datafile 'tblsp_proj1' use logfile group lg_6 autoextend_size = 4294 max_size = 2294967296 engine NDB;
DELIMITER //
create trigger trg_my1 before delete on test.t1 for each row begin insert into log_table values ("delete row from test.t1"); insert into t4 values (old.col1, old.col1 + 5, old.col1 + 7); end//
DELIMITER ;
create definer = current_user() trigger trg_my2 after insert on test.t2 for each row insert into log_table values (concat("inserted into table test.t2 values: (1c, _) = (", cast(NEW.col1 as char(100)), ", ", convert(new.`_`, char(100)), ")"));
DELIMITER //
CREATE TRIGGER mask_private_data BEFORE INSERT ON users FOR EACH ROW BEGIN SET NEW.phone = CONCAT('555', NEW.id); END//
DELIMITER ;
DELIMITER //
CREATE DEFINER=`ctlplane`@`%` TRIGGER `write_key_add` AFTER INSERT ON `sources` FOR EACH ROW
BEGIN
DECLARE i, n INT DEFAULT 0;
SET n = JSON_LENGTH(CAST(CONVERT(NEW.write_keys USING utf8mb4) AS JSON));
SET campaign_id = NEW.write_keys->>'$.campaign_id';
WHILE i < n DO
INSERT INTO source_id_write_key_mapping (source_id, write_key)
VALUES (NEW.id, JSON_UNQUOTE(JSON_EXTRACT(CAST(CONVERT(NEW.write_keys USING utf8mb4) AS JSON), CONCAT('$[', i, ']'))))
ON DUPLICATE KEY UPDATE
       source_id  = NEW.ID,
       write_key  = JSON_UNQUOTE(JSON_EXTRACT(CAST(CONVERT(NEW.write_keys USING utf8mb4) AS JSON), CONCAT('$[', i, ']')));
SET i = i + 1;
END WHILE;
END//
DELIMITER ;
create or replace view my_view1 as select 1 union select 2 limit 0,5;
create algorithm = merge view my_view2(col1, col2) as select * from t2 with check option;
create or replace definer = 'ivan'@'%' view my_view3 as select count(*) from t3;
create view v_some_table as (with a as (select * from some_table) select * from a);
DELIMITER //
CREATE FUNCTION `fivenumbers`() RETURNS varchar(5) CHARSET utf8 COLLATE utf8_unicode_ci DETERMINISTIC
BEGIN
	RETURN '12345';
END//
DELIMITER ;
CREATE FUNCTION `uuidToBinary`(_uuid BINARY(36)) RETURNS binary(16)
    DETERMINISTIC
    SQL SECURITY INVOKER
RETURN
  UNHEX(CONCAT(
            SUBSTR(_uuid, 15, 4),
            SUBSTR(_uuid, 10, 4),
            SUBSTR(_uuid,  1, 8),
            SUBSTR(_uuid, 20, 4),
            SUBSTR(_uuid, 25) ));
CREATE TABLE geo (
    coordinate JSON,
    CHECK(
        JSON_SCHEMA_VALID(
           '{
               "type":"object",
               "properties":{
                 "latitude":{"type":"number", "minimum":-90, "maximum":90},
                 "longitude":{"type":"number", "minimum":-180, "maximum":180}
               },
               "required": ["latitude", "longitude"]
           }',
           coordinate
        )
    )
);
CREATE TABLE `tab1` (
  f4 FLOAT4,
  f8 FLOAT8,
  i1 INT1,
  i2 INT2,
  i3 INT3,
  i4 INT4,
  i8 INT8,
  lvb LONG VARBINARY,
  lvc LONG VARCHAR,
  lvcfull LONG BINARY CHARSET utf8 COLLATE utf8_bin,
  l LONG,
  mi MIDDLEINT
) ENGINE=InnoDB DEFAULT CHARSET=utf8;
DELIMITER //
CREATE PROCEDURE procedure1()
BEGIN
  DECLARE var1 INT unsigned default 1;
  DECLARE var2 TIMESTAMP default CURRENT_TIMESTAMP;
  DECLARE var3 INT unsigned default 2 + var1;
END//
DELIMITER ;
DELIMITER //
CREATE PROCEDURE doiterate(p1 INT)
aaa:BEGIN
  label1:LOOP
    SET p1 = p1 + 1;
    IF p1 < 10 THEN ITERATE label1; END IF;
    LEAVE label1;
  END LOOP label1;
END//
DELIMITER ;
DELIMITER //
CREATE DEFINER=`system_user`@`%` PROCEDURE `update_order`(IN orderID bigint(11))
BEGIN  insert into order_config(order_id, attribute, value, performer)
       SELECT orderID, 'first_attr', 'true', 'AppConfig'
       WHERE NOT EXISTS (select 1 from inventory.order_config t1 where t1.order_id = orderID and t1.attribute = 'first_attr') OR
             EXISTS (select 1 from inventory.order_config p2 where p2.order_id = orderID and p2.attribute = 'first_attr' and p2.performer = 'AppConfig')
       ON DUPLICATE KEY UPDATE value = 'true',
                            performer = 'AppConfig';
END//
DELIMITER ;
DELIMITER //
CREATE PROCEDURE makesignal(p1 INT)
BEGIN
  DECLARE error_text VARCHAR(255);
  IF (error_text != 'OK') THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = error_text;
  END IF;
END//
DELIMITER ;
DELIMITER //
CREATE PROCEDURE set_unique_check()
BEGIN
    SET unique_checks=on;
END//
DELIMITER ;
create role 'RL_COMPLIANCE_NSA';
create role if not exists 'RL_COMPLIANCE_NSA';
CREATE ROLE 'admin', 'developer';
CREATE ROLE 'webapp'@'localhost';
CREATE VIEW view_with_cte1 AS
WITH cte1 AS
(
    SELECT column_1 AS a, column_2 AS b
    FROM table1
)
SELECT a, b FROM cte1;
CREATE VIEW view_with_cte2 AS
WITH cte1 (col1, col2) AS
(
  SELECT 1, 2
  UNION ALL
  SELECT 3, 4
),
cte2 (col1, col2) AS
(
  SELECT 5, 6
  UNION ALL
  SELECT 7, 8
)
SELECT col1, col2 FROM cte;
CREATE VIEW view_with_cte3 AS
WITH cte (col1, col2) AS
(
  SELECT 1, 2
  UNION ALL
  SELECT 3, 4
)
SELECT col1, col2 FROM cte;
CREATE VIEW view_with_cte4 AS
WITH RECURSIVE cte (n) AS
(
  SELECT 1
  UNION ALL
  SELECT n + 1 FROM cte WHERE n < 5
)
SELECT * FROM cte;
DELIMITER //
CREATE DEFINER=`gpuser`@`%` PROCEDURE `test_parse_array` (IN val INT)
BEGIN
DECLARE array VARCHAR(50);
SELECT 1;
END//
DELIMITER ;
DELIMITER //
CREATE DEFINER=`peuser`@`%` PROCEDURE `test_utf`()
BEGIN
    SET @Ν_greece := 1, @N_latin := 'test';
SELECT
    @Ν_greece
     ,@N_latin;
END//
DELIMITER ;
DELIMITER //
CREATE PROCEDURE test_union()
BEGIN
    (SELECT id FROM test_auto_inc)
    UNION ALL
    SELECT id FROM test_auto_inc;
END//
DELIMITER ;
DELIMITER //
CREATE PROCEDURE test_union()
BEGIN
    (SELECT id FROM test_auto_inc)
    UNION ALL
    SELECT id FROM test_auto_inc
    UNION ALL
    SELECT id FROM test_auto_inc ORDER BY id;
END//
DELIMITER ;
DELIMITER //
CREATE PROCEDURE test_union()
BEGIN
    (SELECT id FROM test_auto_inc)
    UNION ALL
    (SELECT id FROM test_auto_inc)
    UNION ALL
    SELECT id FROM test_auto_inc ORDER BY id;
END//
DELIMITER ;
DELIMITER //
CREATE DEFINER=`PEUSER`@`%` PROCEDURE `SANDBOX`.`TEST_UNION`( )
BEGIN
SELECT ID ,SUM(COL_1) AS SUM_COL_1
FROM (
    (SELECT ID ,COL_1 FROM TEST_AUTO_INC
    UNION ALL
    SELECT ID ,COL_1 FROM TEST_AUTO_INC TAI)
    UNION ALL
    (SELECT ID ,COL_1 FROM TEST_AUTO_INC TAI)
)SS
GROUP BY 1
ORDER BY 1
;
END//
DELIMITER ;
DELIMITER //
CREATE TRIGGER IF NOT EXISTS `my_trigger` BEFORE INSERT ON `my_table` FOR EACH ROW BEGIN SET NEW.my_col = CONCAT(NEW.mycol, NEW.id); END//
DELIMITER ;
CREATE TABLE `vendor_contract` (
   `id` int unsigned NOT NULL AUTO_INCREMENT COMMENT 'Primary key.',
   `vendor_id` int DEFAULT NULL COMMENT 'Foreign key to vendor table.',
   `cont_start` date DEFAULT NULL COMMENT 'Contract start date.',
   `cont_end` date DEFAULT NULL COMMENT 'Contract end date.',
   `cont_version` varchar(50) COLLATE utf8mb4_general_ci DEFAULT NULL COMMENT 'Contract version.',
   `exclusive` enum('yes_digital','yes_physical','yes_both','no_both','y','n') COLLATE utf8mb4_general_ci DEFAULT 'no_both' COMMENT 'Yes or No indicates whether there''''s exclusivity on the contract.',
   `orchrep_name` varchar(55) COLLATE utf8mb4_general_ci DEFAULT NULL COMMENT 'Name of the Orchard rep.',
   `carve_out` varchar(255) COLLATE utf8mb4_general_ci DEFAULT NULL COMMENT 'Deprecated',
   `qualification_level` varchar(44) COLLATE utf8mb4_general_ci DEFAULT NULL COMMENT 'Qualification level of the contract.',
   `territory_carve_out` text COLLATE utf8mb4_general_ci COMMENT 'Countries that are restricted from the contract.',
   `dms_carve_out` mediumtext COLLATE utf8mb4_general_ci COMMENT 'DMS customers that are restricted from the contract.',
   `dms_master_carve_out` text COLLATE utf8mb4_general_ci COMMENT 'DMS master master that are restricted from the contract.',
   `encoding_fees_cap_back_ctlg` float DEFAULT NULL COMMENT 'Encoding fees cap for back catalogue.',
   `encoding_fees_cap_new_release` float DEFAULT NULL COMMENT 'Encoding fees cap for new releases.',
   `digital_split` decimal(6,4) DEFAULT NULL COMMENT 'Digital split between label and Orchard.',
   `physical_split` float DEFAULT NULL COMMENT 'Physical split between label and Orchard.',
   `contract_type` enum('vendor_term','per_release_term') COLLATE utf8mb4_general_ci DEFAULT 'vendor_term' COMMENT 'Type of contract. Value can be ''vendor_term'' or ''per_release_term''.',
   `release_term` int DEFAULT NULL COMMENT 'Number of years for the contract if the contract type is per_release_term.',
   `advance_payment` float DEFAULT NULL COMMENT 'Advanced payment amount.',
   `advance_recoupable_percentage` float DEFAULT NULL COMMENT 'Advanced recoupable percentage.',
   `dig_distribution_type` enum('digital_mobile','digital_only','mobile_only') COLLATE utf8mb4_general_ci DEFAULT 'digital_mobile' COMMENT 'Digital distribution type of the track. Value can be ''digital_mobile'', ''digital_only'', or ''mobile_only''.',
   `possible_track_restrictions` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT 'N' COMMENT 'Yes or No indicates whether there''s possible restrictions on tracks.',
   `oms_type` enum('none','both','orchard','label') COLLATE utf8mb4_general_ci DEFAULT 'none' COMMENT 'Type of OMS. Value can be ''none'', ''both'', ''orchard'', or ''label''.',
   `oms_fee_percentage` float DEFAULT NULL COMMENT 'OMS fee percentage.',
   `negotiated_changes` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT NULL COMMENT 'Yes or No indicates whether there''s negotiated changes.',
   `negotiated_change_comments` text COLLATE utf8mb4_general_ci COMMENT 'Negotiated change comment text.',
   `contract_complete` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT 'N' COMMENT 'Indicates if the contract has been reviewed by Legal and marked as completed.',
   `signature_date` date DEFAULT NULL COMMENT 'Date of signature.',
   `marketing_restrictions` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT 'N' COMMENT 'Indicates whether the agreement has marketing restrictions.',
   `orchard_assignment_right_restriction` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT 'N' COMMENT 'Indicates whether the agreement has orchard assignment right.',
   `currency_id` smallint unsigned DEFAULT '1' COMMENT 'Foreign key to currency table.',
   `third_party_responsibility` enum('standard','other') COLLATE utf8mb4_general_ci DEFAULT 'standard' COMMENT 'Indicates whether the agreement has third party responsibility.',
   `third_party_responsibility_detail` text COLLATE utf8mb4_general_ci COMMENT 'Detail of third party responsibility.',
   `possible_track_restriction_detail` text COLLATE utf8mb4_general_ci COMMENT 'Detail of possible track_restrictions.',
   `is_amendment` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT 'N' COMMENT 'Indicates whether the agreement is an amendment.',
   `extend_until_recouped` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT 'N' COMMENT 'Indicates whether the agreement should extend until recoupment.',
   `sync_admin_territory` text COLLATE utf8mb4_general_ci COMMENT 'Syncronization Admin Territory multi-select dropdown of countries',
   `sync_admin_commission` text COLLATE utf8mb4_general_ci COMMENT 'Sync Admin Split textbox. Enter 0.75 for 75%',
   `sync_admin_type_of_deal` enum('master_admin','master_or_publishing_admin','publishing_admin_only') COLLATE utf8mb4_general_ci DEFAULT NULL COMMENT 'Sync Admin Type of Deal dropdown',
   `royalty_collection_territory` text COLLATE utf8mb4_general_ci COMMENT 'Royalty Collection Territory Multi-select dropdown of countries. ',
   `royalty_collection_commission` float DEFAULT NULL COMMENT 'Royalty Collection Split textbox. Enter 0.75 for 75%',
   `publishing_admin_commission` float DEFAULT NULL COMMENT 'Publishing Administration Split textbox. Enter 0.75 for 75%',
   `publishing_admin_territory` text COLLATE utf8mb4_general_ci COMMENT 'Publishing Admin Territory multi-select dropdown of countries',
   `publishing_admin_limit_grant_of_rights` varchar(50) COLLATE utf8mb4_general_ci DEFAULT NULL COMMENT 'Publishing Administration Limit Grant of Rights field',
   `publishing_admin_misc_provisions` varchar(50) COLLATE utf8mb4_general_ci DEFAULT NULL COMMENT 'Publishing Administration Misc Previsions field',
   `parent_vendor_contract_id` int DEFAULT NULL COMMENT 'Contract id of the previous version of this contract',
   `vendor_type` enum('vendor','oms_client') COLLATE utf8mb4_general_ci DEFAULT 'vendor' COMMENT 'indicate whether this contract is for Label or OMS Client',
   `vendor_proposed_term_id` int DEFAULT NULL COMMENT 'foreign key referencing vendor proposed term table',
   `sync_admin_response_time` int DEFAULT NULL COMMENT 'Sync Admin Response Time textbox',
   `ringtone_publishing_type` enum('both','label','orchard','none') COLLATE utf8mb4_general_ci DEFAULT 'none' COMMENT 'Take Ringtone Publishing dropdown',
   `physical_track_publishing_type` enum('none','both','orchard','label') COLLATE utf8mb4_general_ci DEFAULT 'none' COMMENT 'Field to store physical track publishing ',
   `unlimited_roll` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT 'N' COMMENT 'Unlimited Roll dropdown',
   `rollover_length_in_months` int DEFAULT NULL COMMENT 'Rollover Length in Months textfield',
   `can_terminate` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT 'N' COMMENT 'Can Terminate before Rollover Ends dropdown',
   `youtube_composition_clause` enum('N','Y') COLLATE utf8mb4_general_ci DEFAULT 'N',
   `sx_royalty_collection_commission` float DEFAULT '0',
   `topspin_rate` float DEFAULT '0',
   `topspin_rate_territory` text COLLATE utf8mb4_general_ci,
   `notice_required_in_days` int DEFAULT NULL COMMENT 'Notice Required in Days textbox',
   `term_continues_until_recouped` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT 'N' COMMENT 'Term Continues until Recouped dropdown',
   `brand_split` float DEFAULT NULL COMMENT 'Label''s Split - BRAND textfield in edit vendor contract page',
   `other_rights_option` enum('any_and_all','other','none') COLLATE utf8mb4_general_ci DEFAULT 'any_and_all' COMMENT 'Other rights',
   `other_rights_text` varchar(50) COLLATE utf8mb4_general_ci DEFAULT NULL COMMENT 'Other rights text for ""other"" option',
   `special_product_split` float DEFAULT NULL,
   `special_product_carve_out` text COLLATE utf8mb4_general_ci,
   `payment_interval` enum('month','quarter') COLLATE utf8mb4_general_ci DEFAULT 'quarter' COMMENT 'How often the payment is due',
   `pay_after` enum('30','45','60','90') COLLATE utf8mb4_general_ci DEFAULT '45' COMMENT 'Days before payment is due',
   `show_credit_card` enum('N','Y') COLLATE utf8mb4_general_ci DEFAULT 'N',
   `opt_out` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT 'N' COMMENT 'Yes or No indicates whether or not deliver content to stores. Default N indicates, opt out is false and content can be delivered',
   `apply_fx_spread` enum('Y','N') CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci DEFAULT 'N' COMMENT 'Yes OR NO indicates whether or not to apply FX Spread calculations during the monthly accounting process',
   `reserve_rate` decimal(4,2) NOT NULL DEFAULT '0.00',
   `number_of_months_before_payout` tinyint unsigned DEFAULT '0',
   `number_of_installments` tinyint unsigned DEFAULT '0',
   `contract_terms` text COLLATE utf8mb4_general_ci,
   `service_type_id` int unsigned DEFAULT NULL COMMENT 'Service type for the contract',
   `is_automatic_rollover` enum('Y','N') COLLATE utf8mb4_general_ci DEFAULT NULL,
   PRIMARY KEY (`id`),
   KEY `vendor_id` (`vendor_id`),
   KEY `FK_service_type` (`service_type_id`),
   CONSTRAINT `FK_service_type` FOREIGN KEY (`service_type_id`) REFERENCES `service_type` (`id`) ON DELETE RESTRICT ON UPDATE RESTRICT
) ENGINE=InnoDB AUTO_INCREMENT=566242 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci COMMENT='Holds all contracts of labels';

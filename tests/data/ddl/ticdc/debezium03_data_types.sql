CREATE TABLE t_date(
  col     DATE,
  pk      INT PRIMARY KEY
);
CREATE TABLE t_datetime(
  col     DATETIME,
  col_0   DATETIME(0),
  col_1   DATETIME(1),
  col_2   DATETIME(2),
  col_3   DATETIME(3),
  col_4   DATETIME(4),
  col_5   DATETIME(5),
  col_6   DATETIME(6),
  col_z   DATETIME DEFAULT 0,
  col_default_current_timestamp DATETIME DEFAULT CURRENT_TIMESTAMP,
  pk      INT PRIMARY KEY
);
CREATE TABLE t_time(
  col     TIME,
  col_0   TIME(0),
  col_1   TIME(1),
  col_5   TIME(5),
  col_6   TIME(6),
  pk      INT PRIMARY KEY
);
CREATE TABLE t_timestamp(
  col     TIMESTAMP,
  col_0   TIMESTAMP(0),
  col_1   TIMESTAMP(1),
  col_5   TIMESTAMP(5),
  col_6   TIMESTAMP(6),
  col_z   TIMESTAMP DEFAULT 0,
  pk      INT PRIMARY KEY
);
CREATE TABLE t_year(
  col     YEAR,
  col_4   YEAR(4),
  pk      INT PRIMARY KEY
);
CREATE TABLE t_bit(
  col_1   BIT(1),
  col_5   BIT(5),
  col_6   BIT(6),
  col_60  BIT(60),
  pk      INT PRIMARY KEY
);
CREATE TABLE t_varchar(
  col           VARCHAR(64),
  col_utf8_bin  VARCHAR(64)
                CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  /*
  Note: There is a bug of Debezium that it does not recognize
  VARCHAR(..) CHARACTER SET BINARY as binary type
  when the table is created AFTER the connector.
  col_bin       VARCHAR(64)
                CHARACTER SET BINARY,
  */
  pk            INT PRIMARY KEY
);
CREATE TABLE t_binary(
  col_1   BINARY(64),
  col_2   VARBINARY(64),
  pk      INT PRIMARY KEY
);
CREATE TABLE t_blob(
  col_b   BLOB,
  col_t   TEXT,
  pk      INT PRIMARY KEY
);
CREATE TABLE t_bool(
  /*
  We do not support BOOL type.
  Debezium supports BOOL type only when the table is created AFTER the connector.
  col_bool        BOOL,
  */
  col_tinyint_1   TINYINT(1),
  col_tinyint_1_u TINYINT(1) UNSIGNED,
  col_tinyint_2   TINYINT(2),
  pk              INT PRIMARY KEY
);
CREATE TABLE t_float(
  col_f   FLOAT,
  col_d   DOUBLE,
  pk     INT PRIMARY KEY
);
CREATE TABLE t_decimal(
  col_d  DECIMAL(10, 5),
  col_n  NUMERIC(10, 5),
  pk     INT PRIMARY KEY
);
CREATE TABLE t_json(
  col     JSON,
  pk      INT PRIMARY KEY
);
CREATE TABLE t_enum(
  col_e   ENUM('a', 'b', 'c') DEFAULT 'a',
  col_s   SET('a', 'b', 'c') DEFAULT 'a',
  pk      INT PRIMARY KEY
);

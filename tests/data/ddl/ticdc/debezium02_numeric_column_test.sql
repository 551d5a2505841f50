CREATE TABLE dbz_751_numeric_column_test (
      id INT AUTO_INCREMENT NOT NULL,
      rating1 NUMERIC,
      rating2 NUMERIC(8, 4),
      rating3 NUMERIC(7),
      rating4 NUMERIC(6, 0),
      PRIMARY KEY (id)
) DEFAULT CHARSET=utf8;

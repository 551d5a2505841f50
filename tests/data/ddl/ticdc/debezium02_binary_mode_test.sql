CREATE TABLE dbz_1814_binary_mode_test (
      id INT AUTO_INCREMENT NOT NULL,
      blob_col BLOB NOT NULL,
      tinyblob_col TINYBLOB NOT NULL,
      mediumblob_col MEDIUMBLOB NOT NULL,
      longblob_col LONGBLOB NOT NULL,
      binary_col BINARY(3) NOT NULL,
      varbinary_col varbinary(20) NOT NULL,
      PRIMARY KEY (id)
) DEFAULT CHARSET=utf8;

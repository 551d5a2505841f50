CREATE TABLE dbz_254_binary_column_test (
      id INT AUTO_INCREMENT NOT NULL,
      file_uuid BINARY(16),
      PRIMARY KEY (id)
) DEFAULT CHARSET=utf8;

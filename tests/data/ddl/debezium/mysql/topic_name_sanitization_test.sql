CREATE TABLE `dbz_878_some|test@data` (
      id INT,
      some_col VARCHAR(255),
      PRIMARY KEY (id)
  ) DEFAULT CHARSET=utf8;
CREATE TABLE `DBZ.1834` (
      id INT,
      some_col VARCHAR(255),
      PRIMARY KEY (id)
  ) DEFAULT CHARSET=utf8;

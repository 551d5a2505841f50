CREATE TABLE dbz_126_jsontable (
  id INT AUTO_INCREMENT NOT NULL,
  json JSON,
  expectedJdbcStr VARCHAR(256),
  expectedBinlogStr VARCHAR(256),
  PRIMARY KEY(id)
) DEFAULT CHARSET=utf8;

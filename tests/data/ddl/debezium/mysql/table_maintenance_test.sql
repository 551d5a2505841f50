CREATE TABLE dbz_253_table_maintenance_test (
      id INT AUTO_INCREMENT NOT NULL,
      other int,
      PRIMARY KEY (id)
) DEFAULT CHARSET=utf8;
ANALYZE TABLE dbz_253_table_maintenance_test;
OPTIMIZE TABLE dbz_253_table_maintenance_test;
REPAIR TABLE dbz_253_table_maintenance_test;

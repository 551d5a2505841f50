CREATE TABLE dt_full (
  id              INT PRIMARY KEY,
  label           VARCHAR(64),
  d_no_default    DATE     NOT NULL,
  d_epoch_default DATE     NOT NULL DEFAULT '1970-01-01',
  d_other_default DATE     NOT NULL DEFAULT '2030-12-31',
  dt_no_default   DATETIME NOT NULL,
  dt_epoch_default DATETIME NOT NULL DEFAULT '1970-01-01 00:00:00',
  dt_other_default DATETIME NOT NULL DEFAULT '2030-12-31 23:59:59',
  ts_no_default   TIMESTAMP NOT NULL,
  ts_epoch_default TIMESTAMP NOT NULL DEFAULT '1970-01-02 00:00:00',
  ts_other_default TIMESTAMP NOT NULL DEFAULT '2030-12-31 23:59:59'
);

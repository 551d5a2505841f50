CREATE TABLE dbz_222_point (
  id INT AUTO_INCREMENT NOT NULL,
  point POINT DEFAULT NULL,
  expected_x DOUBLE,
  expected_y DOUBLE,
  expected_srid INT,
  PRIMARY KEY (id)
) DEFAULT CHARSET=utf8;
CREATE TABLE dbz_507_geometry (
    id INT NOT NULL,
    geom GEOMETRY,
    linestring LINESTRING,
    polygon POLYGON,
    collection GEOMETRYCOLLECTION,
    PRIMARY KEY (id)
);

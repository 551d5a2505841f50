CREATE TABLE dbz7093 (
     id INT NOT NULL,
     age INT NULL,
     name VARCHAR(255) NULL,
     PRIMARY KEY(id)
);

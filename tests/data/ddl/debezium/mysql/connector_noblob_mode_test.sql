CREATE TABLE Products (
    PRIMARY KEY (id),
    id INTEGER NOT NULL AUTO_INCREMENT,
    name VARCHAR(255) NOT NULL,
    description BLOB
) CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

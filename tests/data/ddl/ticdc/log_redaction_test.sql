USE log_redaction_test;
CREATE TABLE IF NOT EXISTS users (
    id INT PRIMARY KEY,
    username VARCHAR(100),
    email VARCHAR(100),
    password VARCHAR(100),
    credit_card VARCHAR(20),
    ssn VARCHAR(11)
);
CREATE INDEX idx_email ON users(email);
ALTER TABLE users ADD COLUMN phone VARCHAR(20);

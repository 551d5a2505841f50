CREATE TABLE test_table (
					id INT AUTO_INCREMENT PRIMARY KEY,
					name VARCHAR(255),
					email VARCHAR(255),
					last_updated TIMESTAMP);

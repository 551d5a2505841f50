CREATE TABLE `name-adjustment` (id INT);

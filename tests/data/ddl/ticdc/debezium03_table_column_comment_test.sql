CREATE TABLE dbz_4000_comment_test (
    id INT AUTO_INCREMENT NOT NULL COMMENT 'pk',
    name VARCHAR(255) NOT NULL COMMENT 'this is name column',
    value BIGINT NULL COMMENT 'the value is bigint type',
    PRIMARY KEY (id)
) DEFAULT CHARSET=utf8 COMMENT='table for dbz-4000';

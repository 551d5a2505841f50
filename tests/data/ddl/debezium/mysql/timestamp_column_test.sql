CREATE TABLE t_user_block_list (
    `id` int(10) unsigned NOT NULL,
    `data` varchar(20),
    `create_time` datetime,
    `update_time` datetime,
    PRIMARY KEY (`id`)
);
ALTER TABLE t_user_block_list
    MODIFY COLUMN `update_time` datetime(0) NOT NULL
        DEFAULT CURRENT_TIMESTAMP(0) COMMENT 'update_time' AFTER create_time;

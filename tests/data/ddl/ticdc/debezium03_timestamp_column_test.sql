CREATE TABLE t_user_black_list (
    `id` int(10) unsigned NOT NULL,
    `data` varchar(20),
    `create_time` datetime,
    `update_time` datetime,
    PRIMARY KEY (`id`)
);

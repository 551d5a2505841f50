CREATE TABLE `test_stations_10` (
    `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
    `name` varchar(500) /* COLLATE utf8_unicode_ci */ NOT NULL,
    `type` enum('station', 'post_office') /* COLLATE utf8_unicode_ci */ NOT NULL DEFAULT 'station',
    `created` datetime DEFAULT CURRENT_TIMESTAMP,
    `modified` datetime DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (`id`)
);

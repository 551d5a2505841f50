CREATE TABLE `test_uuid` (
    `id` uuid NOT NULL,
    `expected` char(36),
    PRIMARY KEY (`id`)
);

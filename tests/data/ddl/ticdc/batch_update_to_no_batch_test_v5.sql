USE `batch_update_to_no_batch`;
CREATE TABLE `add_and_drop_columns`
(
    `id` int(11) NOT NULL PRIMARY KEY
);
alter table `add_and_drop_columns`
    add col1 int null,
    add col2 int null,
    add col3 int null;
alter table `add_and_drop_columns`
    drop col1,
    drop col2;

use test;
drop table table20, table3;
create table finish
(
    id int PRIMARY KEY
);

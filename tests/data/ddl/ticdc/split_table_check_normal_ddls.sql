use split_region;
alter table test1 add column c1 int;
alter table test1 add column c2 varchar(100);
alter table test2 drop column val;
alter table test1 add index idx_c1 (c1);
alter table test1 modify column c1 bigint;
alter table test1 drop index idx_c1;

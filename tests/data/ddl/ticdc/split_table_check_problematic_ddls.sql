use split_region;
alter table test1 add unique key uk_c1 (c1);
alter table test2 add unique key uk_id (id);

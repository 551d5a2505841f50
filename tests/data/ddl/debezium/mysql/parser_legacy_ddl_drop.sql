drop table if exists order;

use `bdr_mode`;
create table `finish_mark` (id int primary key, name varchar(20));

use `generate_column`;
create table s1 (a int, b int as (a + 1) stored primary key);
create table s2 (a int, b int as (a + 1) stored not null, unique index idx1(b));
create table s3 (a int not null, c int not null, b int as (a + c) stored not null, unique index idx1(b));
create table s4 (a varchar(16) not null, c int not null, b varchar(32) as (concat(a, '_', c)) stored not null, unique index idx1(b));
create table s5 (a int not null, c int not null, b int as (a * 100 + c) stored not null, unique index idx1(a, b));

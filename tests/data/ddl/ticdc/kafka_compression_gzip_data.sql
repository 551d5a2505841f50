use test;
create table tp_int_gzip
(
    id          int auto_increment,
    c_tinyint   tinyint   null,
    c_smallint  smallint  null,
    c_mediumint mediumint null,
    c_int       int       null,
    c_bigint    bigint    null,
    constraint pk
        primary key (id)
);
create table gzip_finish_mark
(
    id int PRIMARY KEY
);

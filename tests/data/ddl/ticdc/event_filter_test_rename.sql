USE `event_filter`;
RENAME TABLE t_name TO t_rename;
RENAME TABLE t_name1 TO t_rename1, t_name2 TO t_rename2, t_name3 TO t_rename3;
RENAME TABLE t_rename4 TO t_rename5;

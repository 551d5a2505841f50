OPTIMIZE TABLE t1;
OPTIMIZE TABLE t1, t2;
optimize local table t1;

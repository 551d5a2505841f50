flush no_write_to_binlog hosts;
flush local hosts;
flush table Foo, Bar with read lock;
FLUSH FIREWALL_RULES;

DELIMITER //
create procedure f (a1 int)
begin
	kill query a1;
end//
DELIMITER ;

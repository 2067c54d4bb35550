select count(*) from (select 1 from errors where uid = ? limit ?)

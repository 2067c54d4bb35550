select count(*) from (select 1 from dead where uid = ? and fingerprint = ? limit ?)

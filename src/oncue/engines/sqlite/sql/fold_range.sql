select min(rowid), max(rowid), count(*) from (select rowid from tally order by rowid limit ?)

delete from ledger where entry_id in (select entry_id from ledger where job_id = ? limit ?)

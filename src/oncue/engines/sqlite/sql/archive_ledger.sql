-- Up to the end of the piece, from its start or from where the page before ended.
select l.job_id, l.first_at, l.last_at, l.n, l.outcome, l.reason, l.run_id, l.at, l.entry_id, j.uid
from ledger l left join jobs j on j.job_id = l.job_id
where (l.at, l.entry_id) > (?1, ?2) and l.at < ?3 order by l.at, l.entry_id limit ?4

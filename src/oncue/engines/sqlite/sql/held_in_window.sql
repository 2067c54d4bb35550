select s.* from runs r indexed by runs_held cross join live_one_shots s on s.job_id = r.run_id
where r.held > 0 and r.run_id = r.job_id and r.due >= :start and r.due < :end and (r.due, r.run_id) > (:at, :last) {who}  -- held: 0 no
order by r.due, r.run_id

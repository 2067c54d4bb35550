select s.* from runs r cross join live_one_shots s on s.job_id = r.run_id
where r.class_id = :class_id and r.held = 0 and r.due >= :start and r.due < :end and (r.due, r.run_id) > (:at, :last) {who}and s.next_at is not null  -- held: 0 no
order by r.due, r.run_id

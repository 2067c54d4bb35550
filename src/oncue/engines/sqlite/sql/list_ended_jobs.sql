-- With the columns of a live job; a run that is not a job has no spec here.
select run_id, uid, job_version, iif(state = 4, 3, 2), class_id, name, null, ended_at, iif(run_id = job_id, spec, null), payload, null  -- state: 4 cancelled; status: 2 finished, 3 cancelled
from {piece} where uid = :uid {narrowed}and (ended_at, run_id) < (:at, :last) order by ended_at desc, run_id desc limit :limit

-- Waiting runs of a job from `wanted` $2 on that a pause holds ($5), or that none does. Those asked for by hand after $4 are not meant.
(select run_id, wanted from waiting where run_id = $1 and (held & 4 > 0) = $5 and (origin is null or wanted <= $4))
union all
(select run_id, wanted from waiting
 where job_id = $1 and job_id <> run_id and wanted >= $2 and (held & 4 > 0) = $5 and (origin is null or wanted <= $4)
 order by wanted limit $3)

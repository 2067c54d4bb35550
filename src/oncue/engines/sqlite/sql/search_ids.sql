-- Up to :scan entries, whoever's they are: ids of one minute begin alike.
select {key}, job_id = {key} from (
  select {key}, job_id, uid from {table} where {key} between :first and :last order by {key} desc limit :scan)
where :uid is null or uid = :uid

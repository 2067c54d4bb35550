with added as (
  insert into run_logs (run_id, number, text, at)
  select $1, $2, $3, $4 where not exists (select from run_logs where run_id = $1 and number = $2) and (
    substr($3::bytea, 1, 1) = '\x01' or length($3::bytea) + (
      select coalesce(sum(length(text)), 0) from run_logs where run_id = $1 and substr(text, 1, 1) <> '\x01') <= $5::bigint)
  returning number)
select exists (select from added) or exists (select from run_logs where run_id = $1 and number = $2)

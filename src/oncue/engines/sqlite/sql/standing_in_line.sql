-- How many runs in line for a lane or gate are before this one. Paused runs do not count.
select count(*) from (select 1 from runs where {lane} = ?1 and {in_line} and (wanted, run_id) < (?2, ?3) limit 10000)

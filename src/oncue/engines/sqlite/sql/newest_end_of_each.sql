-- When a run of each of these users ended last, before a position: by the index alone. Null: none did.
select u.value, (select ended_at from {piece} where uid = u.value and (ended_at, run_id) < (:at, :last) order by ended_at desc, run_id desc limit 1)
from json_each(:users) u

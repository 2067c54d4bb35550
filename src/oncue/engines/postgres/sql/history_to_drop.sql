select max(until_at) from pieces where parent = 'history' and until_at <= $1 having count(*) > 0

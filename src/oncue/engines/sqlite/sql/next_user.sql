select uid from runs where uid > ? order by uid limit 1

-- Nothing is known of what anybody has, as at first. Locked in order, like those who make jobs of several users do.
update quotas q set jobs = default, payload = default from (select uid from quotas order by uid for update) held where q.uid = held.uid

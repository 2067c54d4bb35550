-- name: list_errors
select uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours from errors
where {who}(last_seen, uid, fingerprint) < (:at, :last_uid, :last) order by last_seen desc, uid desc, fingerprint desc limit :limit

-- name: count_letters_of_error
select count(*) from (select 1 from dead where uid = ? and fingerprint = ? limit ?)

-- name: take_error_counts
delete from error_counts where rowid in (select rowid from error_counts limit ?)
returning uid, fingerprint, task, error_type, sample, n, first_at, last_at

-- name: find_error
select uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours from errors where uid = ? and fingerprint = ?

-- name: count_errors
select count(*) from (select 1 from errors where uid = ? limit ?)

-- name: put_error
insert into errors (uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours) values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do update set sample = excluded.sample, n = excluded.n, first_seen = excluded.first_seen,
  last_seen = excluded.last_seen, hours = excluded.hours

delete from error_counts where ctid = any(array(select ctid from error_counts limit $1 for update skip locked))
returning uid, fingerprint, task, error_type, sample, n, first_at, last_at

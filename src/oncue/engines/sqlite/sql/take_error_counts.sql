delete from error_counts where rowid in (select rowid from error_counts limit ?)
returning uid, fingerprint, task, error_type, sample, n, first_at, last_at

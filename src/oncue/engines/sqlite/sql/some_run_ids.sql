select run_id from runs where uid = ? limit ?

select 1 from sets where uid = ? and name = ? and stamp = ? and digest = ?

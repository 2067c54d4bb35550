-- Nobody puts another stamp before this transaction has ended.
select from sets where uid = $1 and name = $2 and stamp = $3 and digest = $4 for share

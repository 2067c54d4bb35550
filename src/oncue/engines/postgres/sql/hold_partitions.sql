-- Until the transaction ends, none is dropped. Before its snapshot, which would otherwise have some that are gone.
lock table history, ledger, audit, run_logs in access share mode

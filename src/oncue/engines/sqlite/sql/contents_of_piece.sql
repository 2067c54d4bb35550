select 'runs', run_id, token, state from {piece}

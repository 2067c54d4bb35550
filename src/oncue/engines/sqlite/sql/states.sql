select p.run_id, p.state from carray(?1) asked cross join {piece} p on p.run_id = asked.value

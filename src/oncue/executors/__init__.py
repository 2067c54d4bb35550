"""Ways to run a task. Each file one executor, all with the same `run`."""

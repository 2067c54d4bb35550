"""Ways to run a task. Each file is one executor, all with the same `run`."""

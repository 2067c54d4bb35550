"""`oncue bench`: how fast oncue is on this machine, end to end, measured by the tasks themselves.

parts               the table of parts, and how they are run
usual_parts         idle, create, drain, burst, spread, sustained, recurring
filling             snapshot and full: the same again beside an old snapshot, or with millions of runs
fleet               scale, counting and fleet: workers in processes of their own
intake              rows of the outbox, beside the same jobs in batches
soak                a steady load for long, its samples, and whether it was flat

stand               the test bed: a private database, oncue on it, and the requests that are sent
processes           the processes that are measured, started as a user starts them
http_load           a light generator of HTTP load
measuring_tasks     the task that notes when it was due and when it started
procfs              what a process uses of the machine

measures            the measures with our targets, and how much is measured
notes               what the task noted, and what follows from that
minutes             a soak minute by minute
report              the results as a table, as JSON and as a page with plots
"""

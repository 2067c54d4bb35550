"""`oncue bench`: how fast oncue is on this machine, end to end, measured by the tasks themselves."""

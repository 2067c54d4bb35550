"""`oncue bench`: what this machine makes of oncue, end to end, measured by the tasks themselves."""

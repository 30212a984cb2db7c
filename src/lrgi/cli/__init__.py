"""argv, environment, printing, exit codes: the only room that talks."""

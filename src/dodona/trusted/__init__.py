"""The only place where data and randomness meet."""

"""Releasing a workload at once: a public model of the table, and made-up rows that answer like it."""

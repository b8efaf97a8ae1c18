"""Synthetic data: a public model of a table that answers a declared workload well."""

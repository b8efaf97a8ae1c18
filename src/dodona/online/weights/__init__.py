"""Multiplicative weights: many counts from few looks at the data."""

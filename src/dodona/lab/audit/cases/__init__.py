"""Correct mechanisms on pairs of neighbours, with their claims and how to sample their outputs."""

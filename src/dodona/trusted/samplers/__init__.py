"""Exact samplers over a cryptographic keystream: rational parameters, integer samples, and exactly the stated law."""

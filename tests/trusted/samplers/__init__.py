"""Tests of the samplers: slow oracles, an adversary that chooses words, and exact laws."""

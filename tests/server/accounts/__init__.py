"""Tests of accounts, on every kind of store."""

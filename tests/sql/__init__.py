"""Tests of SQL in and SQL out."""

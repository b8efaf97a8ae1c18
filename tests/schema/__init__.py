"""Tests of what the data may look like."""

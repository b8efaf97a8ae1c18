"""Tests of what it costs."""

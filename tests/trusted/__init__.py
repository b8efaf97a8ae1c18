"""Tests of the trusted part, and what they share."""

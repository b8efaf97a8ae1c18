"""Tests of the house itself: its documents, its rules and the ties between theory and code."""

"""Tests of the places where data live."""

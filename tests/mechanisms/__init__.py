"""Mechanisms held to their theorems: exact laws, worked out without the code that is tested."""

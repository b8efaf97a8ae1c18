"""Secrets: in a dataset file they stand as `env:NAME` alone, and nothing that they hold is ever shown."""

from __future__ import annotations

import os

from dodona.errors import InvalidRequest

VARIABLE = "env:"


def secret(reference: str) -> str:
    """Return what an environment variable holds; it is never shown."""
    name = reference.removeprefix(VARIABLE)
    value = os.environ.get(name)
    if not value:
        raise InvalidRequest(f"The environment variable {name} is not set, and the dataset file refers to it.")
    return value

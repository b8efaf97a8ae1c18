"""Which two tables must look alike."""

from __future__ import annotations

from enum import Enum


class Neighbours(Enum):
    """The neighbour relation. The two are never mixed: a guarantee under one says nothing under the other."""

    ADD_REMOVE = "add-remove"
    """One table has a row that the other lacks; the size is protected."""
    REPLACE = "replace"
    """The tables differ in one row; the size is public."""

"""A deliberately broken copy of the product, and the cases of which at least one must expose it."""

from __future__ import annotations

from dataclasses import dataclass

from dodona.lab.audit.patch import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault as patches of real modules. Describing it imports nothing that could be patched."""

    name: str
    story: str
    """What is wrong, in a line."""
    patches: tuple[Patch, ...]
    cases: tuple[str, ...]
    """Names of cases; every pair of neighbours under that name is tried."""

"""The catalogue of faults that the audit must catch. It is data only: no product module is imported."""

from dodona.lab.audit.mutants import choice, keystream, ladder, local, noise, people, price, served, sparse
from dodona.lab.audit.patch import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *noise.MUTANTS,
    *keystream.MUTANTS,
    *choice.MUTANTS,
    *sparse.MUTANTS,
    *price.MUTANTS,
    *served.MUTANTS,
    *ladder.MUTANTS,
    *people.MUTANTS,
    *local.MUTANTS,
)

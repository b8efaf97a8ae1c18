"""Read the public constraints of a dataset file; every mistake is reported with its line."""

from dataclasses import replace

from dodona.errors import InvalidArgument
from dodona.schema.schema import Constraint, Schema
from dodona.schema.toml import TomlTable

_EXAMPLE = '[[constraints]] with when = "age < 15" and then = "NOT married"'


def read_constraints(root: TomlTable, schema: Schema | None) -> Schema | None:
    """Return the schema with its constraints, which are compiled and compared here."""
    if not root.has("constraints") or schema is None:
        return schema
    from dodona.knowledge.constraints import InvalidConstraint, compile_constraints  # loads the SQL compiler

    constraints = list[Constraint]()
    entries = root.tables("constraints", example=_EXAMPLE) or ()
    for entry in entries:
        words = {
            key: entry.text(key, example=f'{key} = "age < 15"') if entry.has(key) else None
            for key in ("when", "then", "never")
        }
        entry.close()
        try:
            constraints.append(Constraint(**words))
        except InvalidArgument as fault:
            entry.note(None, f"is not accepted: {fault.accepted}")
    if len(constraints) < len(entries):
        return schema
    constrained = replace(schema, constraints=tuple(constraints))
    try:
        compile_constraints(constrained)
    except InvalidConstraint as fault:
        entries[fault.place].note(None, f"is not accepted: {fault.message.rstrip('.')}")
    return constrained

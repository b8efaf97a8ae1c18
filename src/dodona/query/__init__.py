"""What may be asked: linear queries over a domain, and the columns computed from their noisy values.

- `query`: `Query`, its `Block`s, their weights and keys; a query that exists was validated against its domain
- `question`: `Question`, a query with the columns, HAVING and ORDER BY computed from it
- `predicate`: conditions on cells (`Among`, `And`, `Or`, `Jointly`) and their algebra
- `column`: `columns(domain)`, conditions written in Python, and what a comparison means
- `sensitivity`: `unit_sensitivity`, how far one privacy unit can move the answers
- `movement`: the cells that blocks tell apart, which sensitivities, digests and derivations are computed over
- `residual`: `Residual`s of marginals and their `Classes`
- `canonical`: the digest of a query, and `spelling`: its JSON form, both permanent
"""

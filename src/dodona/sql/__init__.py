"""SQL input: `statement.read_statement` reads a text as a `Question`, or as several with an outer half.

`parse` builds the syntax tree. One SELECT over the table: `scope` resolves names and reports errors, `leaf`,
`functions` and `comparison` give the meaning of expressions in one row, `condition` that of WHERE and CASE, `keys` that
of GROUP BY, `aggregate` the blocks to measure, `compile` the question. More than that: `tables` reads joins, `people`
sub-selects by person, `split` and `groups` divide a statement, and `outer` says what may be computed on answers.
"""

"""SQL input: `compile.compile_sql` compiles the text of one SELECT into a `Question`. Only text and schema are read.

`parse` builds the syntax tree, `scope` resolves names and reports errors, `scalar` and `comparison` give the meaning of
expressions in one row, `condition` that of WHERE and CASE, `keys` that of GROUP BY, `aggregate` the blocks to measure.
"""

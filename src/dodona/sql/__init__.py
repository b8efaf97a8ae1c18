"""SQL in: `compile.compile_sql` turns the text of one SELECT into a `Question`. Only text and schema are read.

`parse` gives the syntax tree, `scope` its names and errors, `scalar` and `comparison` the meaning of expressions in one
row, `condition` that of WHERE and CASE, `keys` that of GROUP BY, `aggregate` the blocks to measure.
"""

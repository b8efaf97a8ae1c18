"""What the data may look like. All of it is declared by the data owner, and public.

- `schema`: `Schema`, its `Domain` of attributes, and the privacy `Unit` under a relation of `Neighbours`
- `attributes`: `Category`, `Integer`, `Number`, `Date`, `Boolean`; their sizes, codes and labels
- `partition`: `Partition`, the groups of one attribute, and `group_label`
- `encoding`: `encode`, from values to codes
- `file`: `read_schema`, from the tables of a dataset file; `toml` reads and locates their entries
"""

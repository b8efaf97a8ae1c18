"""Data access: rendering SQL, the engine adapters, and the owner's inspection of a table."""

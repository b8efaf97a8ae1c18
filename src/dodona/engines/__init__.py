"""Where the data lives: SQL out, the engines' adapters, and the owner's inspection of a table."""

"""Everything learned from releases, and all that follows from it without touching data."""

"""Where the data live: sources of exact answers."""

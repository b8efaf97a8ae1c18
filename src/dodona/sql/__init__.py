"""SQL in, SQL out. Only public facts are used here: the text and the schema."""

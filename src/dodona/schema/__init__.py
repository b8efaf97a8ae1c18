"""What the data may look like. All of it is declared and public."""

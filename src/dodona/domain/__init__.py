"""What the data may look like. All of it is public."""

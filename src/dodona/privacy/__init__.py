"""What it costs: events, accountants and mechanisms. Mathematics only; nothing here draws noise or sees data."""

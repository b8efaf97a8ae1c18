"""What it costs: events, and the theorems that price them."""

"""Right mechanisms on pairs of neighbours: what is claimed of them, and how to draw what they tell."""

"""What we believe: public laws over the domain's cells, learned from releases alone."""

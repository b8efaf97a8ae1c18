"""A demonstration: exact noise is drawn, held to its law, timed beside a peer and painted."""

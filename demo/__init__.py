"""A demonstration: a made-up hospital behind a budget is asked a dozen questions, each beside the truth."""

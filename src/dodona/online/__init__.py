"""Answering a stream of questions: what is told again, what is measured, and at which price."""

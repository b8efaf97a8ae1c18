"""The SQL door: PostgreSQL's protocol in front of a real, empty PostgreSQL, with Dodona's answers put into it.

It belongs to the front of the server: it knows no data, no ledger and no noise.
"""

"""The server: people who may not hold the data can ask.

A front authenticates callers and holds connections; a core holds data, ledger and noise. They are two processes, which
may belong to two users of the system, and speak over a local socket.
"""

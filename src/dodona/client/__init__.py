"""The client of a server: the same calls as a curator, over HTTP."""

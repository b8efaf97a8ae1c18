"""The auditor audited: it never proves too much, and it sees every fault of its catalogue."""

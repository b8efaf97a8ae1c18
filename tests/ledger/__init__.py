"""Tests of the ledger: one contract for all stores, and crashes, races, faults and tampering for those that last."""

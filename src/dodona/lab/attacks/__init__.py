"""Attacks on tables: each runs against exact answers, against answers with too little noise, and against Dodona.

Nothing is imported here, because the noise must be removed from a copy of Dodona before its modules are imported.
"""

"""Attacks on tables: each is tried on exact answers, on answers with too little noise, and on Dodona.

Nothing is imported here: the noise is taken out of a copy of Dodona before its modules are imported.
"""

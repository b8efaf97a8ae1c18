"""Trust, then verify: a black-box audit of every mechanism, and faulty copies that it must catch.

Nothing is imported here, because a fault is put into a module before that module is imported.
"""

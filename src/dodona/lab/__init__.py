"""The lab: audits, attacks, planning, textbook mechanisms, adaptive analysis and surveys. Serving never imports it.

Nothing is imported here: the audit puts a fault into a module before that module is imported.
"""

"""Options: each is declared once, as a typed field with its name, unit, range and meaning; call, session and table
resolve to one value for each.

May import ``core.model`` and ``core.units``.
"""

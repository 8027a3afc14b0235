"""Options: their definitions, and how the call, the session and the table resolve to one value for each.

May import ``core.model`` and ``core.units``.
"""

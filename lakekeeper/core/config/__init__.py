"""Options: their definitions, and how a call, the session and the table resolve to one value each.

May import ``core.model`` and ``core.units``.
"""

"""What ``vacuum`` may delete: retention, the vacuum plan and the path guard.

May import ``core.text`` and ``core.units``.
"""

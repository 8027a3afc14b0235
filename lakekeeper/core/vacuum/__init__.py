"""What ``vacuum`` may delete: retention, the vacuum plan and the guard on every path.

May import ``core.text`` and ``core.units``.
"""

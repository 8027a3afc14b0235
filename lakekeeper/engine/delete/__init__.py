"""Row-level deletes that never fail because of maintenance.

May import ``engine.merge`` and ``engine.state``.
"""

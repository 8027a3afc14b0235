"""``vacuum``: record what no retained version needs, then delete it, and what dead runs left behind.

May import ``engine.trash`` and what it may import.
"""

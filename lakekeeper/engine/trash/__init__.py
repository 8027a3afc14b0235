"""The trash of a table: files that ``vacuum`` moved aside and partitions that were dropped, and their restore.

May import ``engine.delete`` and what it may import.
"""

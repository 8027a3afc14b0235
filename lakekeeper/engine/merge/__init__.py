"""A merge from plan to commit: rewrite the groups, replay deletes that won a race, commit, retry on conflict.

May import ``engine.state``.
"""

"""Policies on simulated tables: streams of commits, the table that they make, and what queries open over time.

May import ``core.planning`` and everything below it.
"""

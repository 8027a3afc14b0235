"""Simulation of policies: streams of commits, the tables that they produce, and what queries open over time.

May import ``core.planning`` and the packages below it.
"""

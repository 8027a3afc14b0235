"""The workload of a table: filters read from executed plans, as weighted ranges on columns.

May import ``core.model``.
"""

"""The values that every layer shares: blocks and snapshots, cluster keys, plans, reports, cost coefficients.

May import ``core.text``.
"""

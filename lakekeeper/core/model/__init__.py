"""The values that all layers share: blocks and snapshots, cluster keys, plans, reports, cost coefficients.

May import ``core.text``.
"""

"""The layout of blocks along the cluster key: ranks, depth, levels, space-filling curves, split points.

May import ``core.config`` and ``core.model``.
"""

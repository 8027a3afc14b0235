"""What queries read and what a merge costs: the read model, scores, predictions and advice on keys.

May import ``core.layout`` and ``core.workload``, and what these may import.
"""

"""What queries read and what a merge costs: the read model, scores, predictions and advice on keys.

May import ``core.layout``, ``core.workload`` and the packages that these may import.
"""

"""What to merge: policies choose blocks, the planner turns their choices into one plan within a budget.

May import ``core.cost`` and everything below it.
"""

"""Planning of merges: policies choose blocks, and the planner turns their choices into one plan within a budget.

May import ``core.cost`` and the packages below it.
"""

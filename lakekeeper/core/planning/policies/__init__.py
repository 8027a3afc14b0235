"""The built-in policies, one per module: pure functions from an immutable snapshot to choices.

Each is an entry point of the group ``lakekeeper.policies``; a new policy is one new module or package.
"""

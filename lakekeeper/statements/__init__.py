"""SQL: statements of lakekeeper, table functions, and users' own statements that are retried.

May import the public calls (``lakekeeper.api``) and what they are made of; only ``lakekeeper`` itself imports it.
"""

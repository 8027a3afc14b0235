"""The report: tables, their plans and their history as one HTML page that needs nothing else.

table_view     what a page shows of one table, as values
report         the result of ``report``: those of several tables, and the debt of all
page           the document and its style sheet
sections       a table as HTML
history_part   its operations as HTML

May import ``lakekeeper.history`` and ``lakekeeper.core``; reads no table and no clock.
"""

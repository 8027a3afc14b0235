"""The report on tables, with their plans and history, as a self-contained HTML page.

table_view     the values that the page shows of one table
report         the result of ``report``: the views of the tables, and their maintenance debt
document       the report around its tables
service_page   the page of a running service
head           the head of all pages, with their style sheet
figures        figures, notes and numbers
sections       one table as HTML
history_part   the operations on a table as HTML

May import ``lakekeeper.history`` and ``lakekeeper.core``; reads no table and no clock.
"""

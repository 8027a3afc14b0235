"""The engine carries out plans: it rewrites, commits, deletes and reports. Free of Spark and of table formats.

service, simulate, advise   automatic runs; simulation and advice for one table
vacuum                      delete what no retained version needs
trash                       the trash
delete                      row-level deletes
merge                       rewrites: plan, execute, replay, commit
state                       leases and other notes beside a table
table_session               the newest snapshot, read once for all verbs of a pass
commit_loop                 the attempts of one commit, for all of the above
events, retries, clock      shared by all of them
"""

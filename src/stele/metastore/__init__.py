"""The metastore: a small, strongly consistent store of paths over one Raft group."""

"""Worker processes that share the metadata port: they follow the leader, answer VMs and pass commands on."""

"""The control API: hosts, groups, VMs, events and all else, over HTTP. One file per resource."""

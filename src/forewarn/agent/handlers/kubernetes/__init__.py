"""Handler ``kubernetes``: cordons and drains the VM's node, and uncordons it afterwards."""

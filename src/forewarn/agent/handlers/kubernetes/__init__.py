"""The kubernetes handler: cordons the node that the VM is, drains it, and takes back what it did."""

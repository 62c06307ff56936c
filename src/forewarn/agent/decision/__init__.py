"""The agent's decisions: rules, plan, approval and memory. Pure: no I/O, no clock."""

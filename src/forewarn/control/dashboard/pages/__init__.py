"""One module per page: what it shows, and nothing else."""

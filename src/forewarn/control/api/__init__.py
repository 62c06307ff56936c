"""Control API: the HTTP resources, one file per resource."""

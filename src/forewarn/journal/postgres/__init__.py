"""The journal that several nodes share: a schema of PostgreSQL."""

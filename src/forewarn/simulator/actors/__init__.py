"""Who uses the system: operators, the author of the fleet file, and guests."""

"""What an operator sets: the settings of ``serve``, read from flags, environment and a TOML file."""

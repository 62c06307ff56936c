"""Settings of ``forewarn serve``, from flags, environment and a TOML file."""

"""Fleet files on the command line: how one is sent, and what is said of it."""

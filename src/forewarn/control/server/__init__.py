"""The control plane's server: sockets, authentication, and what the API reads."""

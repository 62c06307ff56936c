"""Server side of the control plane: sockets, authentication, and views of the API."""

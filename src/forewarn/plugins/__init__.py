"""The stable interface for authors of drivers, handlers and journals: they import from here, and nowhere deeper."""

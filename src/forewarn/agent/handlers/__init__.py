"""The built-in handlers, one module each; they are loaded by entry point like any plugin."""

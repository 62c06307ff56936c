"""The running agent: main loop, handler calls, memory file, clock check."""

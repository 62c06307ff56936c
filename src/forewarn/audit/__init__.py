"""History, timelines of events, and serialization of facts for readers."""

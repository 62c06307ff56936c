"""The record of what happened: history, timelines, and facts serialized for readers."""

"""What gets an application ready for an event, one file each; all are found as a stranger's are, by entry point."""

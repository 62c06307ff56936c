"""In the VM: hears of events, gets the application ready, says so, and puts everything back afterwards."""

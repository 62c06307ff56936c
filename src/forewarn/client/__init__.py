"""Client library: reads and approves events of Forewarn, Azure or an emulator."""

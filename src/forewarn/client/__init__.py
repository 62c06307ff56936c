"""What asks an endpoint for events: Forewarn's, Azure's, or an emulator's."""

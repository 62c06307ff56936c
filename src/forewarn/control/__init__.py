"""Control plane: API and notifications for operators, owners and other systems."""

"""What roles are made of."""

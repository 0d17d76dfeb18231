"""Instructions and arithmetic that roles of every target are made of."""

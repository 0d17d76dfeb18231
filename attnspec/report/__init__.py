"""`attnc explain --html` and `--png`: pictures of what the compiler found out about a variant, and of what it made of it."""

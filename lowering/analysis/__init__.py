"""What can be known of a variant before any kernel exists."""

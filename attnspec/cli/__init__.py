"""The attnc command."""

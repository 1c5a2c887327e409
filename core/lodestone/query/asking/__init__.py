"""What a query asks for: its tree, its parts, sets and filters, and what they are resolved to."""

"""Access to a home: callers, what they see and may do, and the keys that name them."""

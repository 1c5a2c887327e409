"""Who may see and do what: keys, and how much of a home somebody sees."""

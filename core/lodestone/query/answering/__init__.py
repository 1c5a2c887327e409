"""What an answer is made of: the pass of its query, its page, its messages and its record."""

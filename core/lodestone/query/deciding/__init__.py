"""What is decided of an answer: whether it is simple enough, and whether the collection holds what was asked."""

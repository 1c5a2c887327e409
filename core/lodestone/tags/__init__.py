"""Tags of pictures: given by hand, and left by searches that found the pictures."""

"""Pictures that are copies of each other: equal files, and files that look alike."""

"""Detection of duplicates: files with equal content, and pictures that look alike."""

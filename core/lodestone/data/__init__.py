"""Files that ship inside the package."""

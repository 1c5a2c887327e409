"""Where immutable files are kept: a folder, or a bucket of an object store."""

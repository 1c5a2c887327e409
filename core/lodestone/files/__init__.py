"""Storage of immutable files: in a local folder, or in a bucket of an object store."""

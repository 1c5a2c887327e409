"""Pictures, captions and homes that several benchmarks measure on."""

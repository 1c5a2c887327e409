"""Benchmarks of what is learnt from data: search quality, captions, the prior, the complexity gate and trust."""

"""Research: the fits of what ships and the studies that chose settings. Nothing of it is in the wheel.

Each module of `fits` and `studies` is a benchmark in the sense of `benchmarks.harness`: `python -m research.fits.quality` runs
one, and `python -m research.refit` runs all that write what ships.
"""

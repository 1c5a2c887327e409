"""Python API reference from source text: finding definitions, reading docstrings, writing Markdown. Nothing is imported."""

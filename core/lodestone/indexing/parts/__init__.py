"""Parts of a picture: what a picture yields (outputs of models, captions, metadata), one module a part.

`contract` says what a part is, and `registry` is the table of all parts. The recipe is docs/recipes/add-a-part.md.
"""

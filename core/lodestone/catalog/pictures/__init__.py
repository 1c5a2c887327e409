"""The catalog's tables of pictures: corpora, roots, images, captions, copies and deletions."""

"""Conversion of picture files to pixels: decoding, orientation, metadata, thumbnails."""

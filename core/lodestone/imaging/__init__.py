"""Files to pixels: decoding, orientation, metadata, thumbnails."""

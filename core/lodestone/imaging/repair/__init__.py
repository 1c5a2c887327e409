"""Repair of picture files for their decoders: only what pixels need is read, and a cut file is read as far as it goes."""

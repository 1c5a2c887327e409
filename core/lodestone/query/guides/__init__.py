"""Guides in the pipeline: drawing, judging, searching and fusing them, and what captions say."""

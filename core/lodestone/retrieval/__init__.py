"""Retrieval: ranked lists, fusion, exact rescoring and score calibration."""

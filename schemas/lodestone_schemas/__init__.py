"""Shapes of Lodestone's data: API models, Arrow schemas, vector collections. Imports nothing of ours."""

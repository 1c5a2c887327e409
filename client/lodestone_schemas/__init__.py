"""Shapes of Lodestone's data: API models, Arrow schemas, vector collections. It imports none of our other packages."""

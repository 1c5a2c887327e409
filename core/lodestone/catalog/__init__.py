"""What Lodestone knows about pictures, runs and collections, in SQL."""

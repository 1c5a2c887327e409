"""Command line of Lodestone. Commands import what they need when they run."""

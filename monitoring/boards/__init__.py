"""What do the dashboards show? A module for each of them."""

"""Studies that chose the settings of the product; they write nothing that ships."""

"""Facts of pictures that searches can be restricted by: place, time of year, camera, shape; and the fields of their points."""

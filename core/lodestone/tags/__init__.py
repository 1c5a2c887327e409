"""Words that stay with pictures: tags given by hand and by searches that found them."""

"""Check of a GPU: the product's embedding path and a diffusion model on it, beside a bare loop and the processor's vectors."""

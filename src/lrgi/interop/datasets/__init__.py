"""Data sets by name, through the readers of the libraries that publish them."""

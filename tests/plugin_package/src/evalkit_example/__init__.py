"""One of each thing that another package can add to evalkit."""

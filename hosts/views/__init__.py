"""The pages about hosts and what is kept of them."""

"""The herder's own backup: what an archive consists of, how it is made, checked, and brought back."""

"""The demonstration: throw-away hosts on loopback and the walk through them."""

"""The house around the product: set-up of a machine, embedded servers, the supervisor of `make run`."""

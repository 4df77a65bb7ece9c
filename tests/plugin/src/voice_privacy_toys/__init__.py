"""One component of each kind, as another distribution brings them."""

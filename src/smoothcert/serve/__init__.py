"""A server that answers each request with a label, a region and what it is worth, and keeps its promises."""

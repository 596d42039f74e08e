"""A local page to look into one run: its inputs, their regions, and what lies around them."""

"""Numbers over records, without torch."""

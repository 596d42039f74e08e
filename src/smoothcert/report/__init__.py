"""What people look at: tables, curves, files for other programs."""

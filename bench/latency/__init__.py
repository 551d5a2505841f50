"""From the return of COMMIT at the source until the target shows the row."""

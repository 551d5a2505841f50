"""The console in the browser: its files, which ask the API for all that they show."""

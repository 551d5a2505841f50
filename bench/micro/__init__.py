"""Cost of each stage of a row's way alone: CPU microseconds and bytes a row, beside recorded budgets."""

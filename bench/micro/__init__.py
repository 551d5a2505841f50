"""What each stage of a row's way costs alone: CPU microseconds and bytes a row, beside recorded budgets."""

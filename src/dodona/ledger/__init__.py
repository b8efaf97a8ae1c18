"""What has been spent: receipts, releases, and the durable chain that both stand in."""

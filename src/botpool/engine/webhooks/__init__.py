"""Webhooks: `outbox` turns history into deliveries, and `dispatcher` sends them."""

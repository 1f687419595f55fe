"""The write-ahead log as transactions: order, schemas, slots."""

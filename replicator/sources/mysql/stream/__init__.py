"""The binary log as transactions: order, schemas, DDL."""

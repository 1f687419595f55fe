"""What statements have made of tables, as the catalog and cdc.ddl_history tell."""
